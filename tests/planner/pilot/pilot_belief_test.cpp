#include "planner/pilot/pilot_belief.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>
#include <vector>

namespace ptdp {
namespace {

using testing::IsEmpty;
using testing::SizeIs;

constexpr PilotModel kModel = {
    .job_variance = 0.15 * 0.15, .other_job = 0.05 * 0.05, .layout_variance = 0.06 * 0.06};
const std::vector<double> kLogTimes = {0.0, 0.01, 0.02, 0.03, 0.045, 0.06};

/// Returns a run of each plan itself, and one of a smaller job for each.
std::vector<ShortRun> all_runs(std::size_t plans) {
  std::vector<ShortRun> runs;
  for (std::size_t plan = 0; plan < plans; ++plan) {
    runs.push_back({.plan = plan, .gpu_hours = 8.0});
    runs.push_back({.plan = plan, .is_smaller = true, .gpu_hours = 1.0});
  }
  return runs;
}

// With a job that nothing is known of, two runs tell the difference of their layouts alone: of
// y1 - y2 = d + noise, d ~ N(0, 2v), noise ~ N(0, 2n), the mean of d is v/(v + n)·(y1 - y2).
TEST(PilotBeliefs, LearnDifferencesAsByHand) {
  const PilotModel model = {.job_variance = 1e6, .layout_variance = 4e-4};
  PilotBelief belief(model, {1.0, 1.0});
  belief.observe({.plan = 0}, 0.30);
  belief.observe({.plan = 1}, 0.25);
  const double share = 4e-4 / (4e-4 + kShortRunVariance);
  EXPECT_NEAR(belief.mean(0) - belief.mean(1), share * 0.05, 1e-5);
  EXPECT_EQ(belief.best(), 1U);
  // The mean of both is what was measured, as the job is learnt from both.
  EXPECT_NEAR(0.5 * (belief.mean(0) + belief.mean(1)), 1.275, 1e-4);
}

TEST(PilotBeliefs, LearnLessFromSmallerJobs) {
  PilotBelief whole(kModel, {0.0, 0.0});
  PilotBelief smaller(kModel, {0.0, 0.0});
  for (std::size_t plan = 0; plan < 2; ++plan) {
    whole.observe({.plan = plan}, 0.1);
    smaller.observe({.plan = plan, .is_smaller = true}, 0.1);
  }
  EXPECT_LT(whole.variance(0), smaller.variance(0));
  EXPECT_LT(smaller.variance(0), PilotBelief(kModel, {0.0, 0.0}).variance(0));
}

TEST(PilotBeliefs, GiveProbabilitiesThatAddUp) {
  const std::vector<double> probabilities = PilotBelief(kModel, kLogTimes).probabilities(4000, 1);
  EXPECT_NEAR(std::accumulate(probabilities.begin(), probabilities.end(), 0.0), 1.0, 1e-12);
  EXPECT_TRUE(std::is_sorted(probabilities.rbegin(), probabilities.rend()));
  // Two plans alike are as likely.
  EXPECT_NEAR(PilotBelief(kModel, {0.0, 0.0}).probabilities(20'000, 1)[0], 0.5, 0.02);
}

// E|x|/2 of x ~ N(0, 2v) is the regret of choosing between two plans alike: √(v/π).
TEST(PilotBeliefs, ExpectTheRegretOfTwoPlansAlike) {
  const PilotBelief belief(kModel, {0.0, 0.0});
  EXPECT_NEAR(belief.expected_regret({}, 200'000, 3), 0.06 / std::sqrt(M_PI), 0.002);
}

TEST(PilotChoices, KeepToTheBudget) {
  const PilotBelief belief(kModel, kLogTimes);
  const std::vector<ShortRun> possible = all_runs(kLogTimes.size());
  EXPECT_THAT(choose_short_runs(belief, possible, 1.5), IsEmpty());
  for (const double budget : {4.0, 20.0, 100.0}) {
    const std::vector<ShortRun> chosen = choose_short_runs(belief, possible, budget);
    const double cost =
        std::accumulate(chosen.begin(), chosen.end(), 0.0,
                        [](double sum, const ShortRun& run) { return sum + run.gpu_hours; });
    EXPECT_LE(cost, budget);
    EXPECT_GE(chosen.size(), 2U) << budget;
    EXPECT_LE(chosen.size(), 6U);
  }
}

TEST(PilotChoices, LeaveOutPlansThatCannotWin) {
  const PilotBelief belief(kModel, {0.0, 0.01, 2.0});
  for (const ShortRun& run : choose_short_runs(belief, all_runs(3), 100.0)) {
    EXPECT_NE(run.plan, 2U);
  }
  EXPECT_THAT(choose_short_runs(PilotBelief(kModel, {0.0, 2.0}), all_runs(2), 100.0), IsEmpty());
}

/// A hidden truth, drawn from the model, and what runs of it show.
class HiddenTruth {
 public:
  HiddenTruth(const PilotModel& model, std::size_t plans, std::uint64_t seed)
      : model_(model),
        generator_(seed),
        layouts_(plans),
        job_(normal(model.job_variance)),
        other_job_(normal(model.other_job)) {
    std::generate(layouts_.begin(), layouts_.end(), [&] { return normal(model.layout_variance); });
  }
  [[nodiscard]] double log_time(std::size_t plan) const {
    return kLogTimes[plan] + job_ + layouts_[plan];
  }
  double show(const ShortRun& run) {
    const double noise = normal(kShortRunVariance);
    if (!run.is_smaller) {
      return job_ + layouts_[run.plan] + noise;
    }
    const double correlation = kSmallerRunCorrelation;
    return job_ + other_job_ + correlation * layouts_[run.plan] +
           normal((1.0 - correlation * correlation) * model_.layout_variance) + noise;
  }

 private:
  double normal(double variance) { return std::sqrt(variance) * normal_(generator_); }

  PilotModel model_;
  std::mt19937_64 generator_;
  std::normal_distribution<double> normal_;
  std::vector<double> layouts_;
  double job_;
  double other_job_;
};

TEST(Pilots, OfTwoHundredHiddenTruthsLeaveAThirdOfTheRegret) {
  constexpr int trials = 200;
  const std::vector<ShortRun> chosen =
      choose_short_runs(PilotBelief(kModel, kLogTimes), all_runs(kLogTimes.size()), 48.0);
  EXPECT_THAT(chosen, SizeIs(testing::AllOf(testing::Ge(3U), testing::Le(6U))));
  double before = 0.0;
  double after = 0.0;
  int inside = 0;
  for (int trial = 0; trial < trials; ++trial) {
    HiddenTruth truth(kModel, kLogTimes.size(), static_cast<std::uint64_t>(trial));
    PilotBelief belief(kModel, kLogTimes);
    const auto regret = [&] {
      double least = INFINITY;
      for (std::size_t plan = 0; plan < kLogTimes.size(); ++plan) {
        least = std::min(least, truth.log_time(plan));
      }
      return std::exp(truth.log_time(belief.best()) - least) - 1.0;
    };
    before += regret();
    for (const ShortRun& run : chosen) {
      belief.observe(run, truth.show(run));
    }
    after += regret();
    const std::size_t best = belief.best();
    const double off = truth.log_time(best) - belief.mean(best);
    inside += std::abs(off) <= 1.645 * std::sqrt(belief.variance(best)) ? 1 : 0;
  }
  RecordProperty("before_percent", std::to_string(100.0 * before / trials));
  RecordProperty("after_percent", std::to_string(100.0 * after / trials));
  EXPECT_LE(after, before / 3.0);
  EXPECT_GE(inside, 170);  // 85 %
  EXPECT_LE(inside, 190);  // 95 %
}

}  // namespace
}  // namespace ptdp
