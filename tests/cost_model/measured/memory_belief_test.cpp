// Tests of beliefs about memory: by hand, and properties.
#include "cost_model/measured/memory_belief.h"

#include <gmock/gmock.h>

#include <cmath>

namespace ptdp {
namespace {

MemoryRun run_beyond(double gib, const std::string& job) {
  return {.measured = Bytes((10.0 + gib) * kGibi), .formulas = Bytes(10.0 * kGibi), .job = job};
}

/// Jobs do not differ, and the scatter is that of the runs alone.
constexpr LevelModel kOfRunsAlone = {.job = 0.0, .noise = 1.0, .scatter = 0.0, .scatter_runs = 0.0};

// Runs of 1 and 3 GiB have a mean of 2 and a sample variance of 2. The next run varies by 2 around
// a mean that is known to 2/2: a variance of 3 with one degree of freedom, Cauchy's distribution.
// Three quarters of that lie below 2 + √3 GiB.
TEST(BelieveMemory, IsStudentsIntervalOfTheRunsWithoutOtherScopes) {
  const std::vector<MemoryRun> runs = {run_beyond(1.0, "a"), run_beyond(3.0, "b")};
  const MemoryBelief belief = believe_memory(kOfRunsAlone, {}, runs, "c");
  EXPECT_EQ(belief.support.num_runs, 2);
  EXPECT_NEAR(belief.expected.value() / kGibi, 2.0, 1e-9);
  EXPECT_NEAR(belief.deviation.value() / kGibi, std::sqrt(3.0), 1e-9);
  EXPECT_EQ(belief.degrees, 1.0);
  EXPECT_NEAR(belief.quantile(0.75).value() / kGibi, 2.0 + std::sqrt(3.0), 1e-9);
  const Bytes formulas(70.0 * kGibi);
  EXPECT_NEAR(belief.probability_of_fitting(formulas, Bytes(72.0 * kGibi)), 0.5, 1e-9);
  EXPECT_NEAR(belief.probability_of_fitting(formulas, Bytes((72.0 + std::sqrt(3.0)) * kGibi)), 0.75,
              1e-9);
}

// Other scopes say 0 ± 1 GiB. A run of 4 GiB with a scatter of 1 GiB weighs as much: 2 ± √0.5, and
// the next run varies by 1 more.
TEST(BelieveMemory, WeighsARunAgainstOtherScopes) {
  const LevelModel model = {.job = 0.0, .noise = 1.0, .scatter = 1.0, .scatter_runs = 1.0};
  const LevelPrior prior = {.mean = {0.0, 1.0}, .all_runs = 7};
  const std::vector<MemoryRun> runs = {run_beyond(4.0, "a")};
  for (const char* job : {"a", "b"}) {
    const MemoryBelief belief = believe_memory(model, prior, runs, job);
    EXPECT_NEAR(belief.expected.value() / kGibi, 2.0, 1e-9) << job;
    EXPECT_NEAR(belief.deviation.value() / kGibi, std::sqrt(1.5), 1e-9) << job;
    EXPECT_EQ(belief.support.all_runs, 8);
  }
}

// Left out, the first of 1, 3 and 7 GiB is expected at 5, the second at 4, the third at 2.
TEST(LeaveOneOut, ExpectsTheMeanOfTheOthers) {
  const std::vector<MemoryRun> runs = {run_beyond(1.0, "a"), run_beyond(3.0, "b"),
                                       run_beyond(7.0, "c")};
  const std::vector<MemoryBelief> beliefs = leave_one_out(kOfRunsAlone, {}, runs);
  const std::vector<double> expected = {5.0, 4.0, 2.0};
  ASSERT_EQ(beliefs.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(beliefs[i].expected.value() / kGibi, expected[i], 1e-9) << i;
    EXPECT_EQ(beliefs[i].support.num_runs, 2) << i;
  }
}

TEST(BelieveMemory, NarrowsWithRuns) {
  std::vector<MemoryRun> runs;
  double narrowest = 1e300;
  for (int pairs = 1; pairs <= 16; pairs *= 2) {
    while (std::ssize(runs) < 2 * pairs) {
      runs.push_back(run_beyond(1.0, "a" + std::to_string(runs.size())));
      runs.push_back(run_beyond(3.0, "b" + std::to_string(runs.size())));
    }
    const double width = believe_memory(kOfRunsAlone, {}, runs, "c").half_width().value();
    EXPECT_LT(width, narrowest) << pairs;
    narrowest = width;
  }
}

TEST(ProbabilityOfFitting, GrowsWithTheCapacity) {
  const std::vector<MemoryRun> runs = {run_beyond(1.0, "a"), run_beyond(3.0, "b")};
  const MemoryBelief belief = believe_memory(kOfRunsAlone, {}, runs, "c");
  double last = 0.0;
  for (int gib = 40; gib <= 120; ++gib) {
    const double probability =
        belief.probability_of_fitting(Bytes(70.0 * kGibi), Bytes(gib * kGibi));
    EXPECT_GT(probability, last) << gib;
    last = probability;
  }
  EXPECT_LT(last, 1.0);
}

TEST(MemoryBelief, IsUnknownWithoutAnyRun) {
  EXPECT_FALSE(believe_memory(kOfRunsAlone, {}, {}, "a").is_known());
}

}  // namespace
}  // namespace ptdp
