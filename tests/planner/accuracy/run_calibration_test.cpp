// Tests of which rows calibrate a row.
#include "planner/accuracy/run_calibration.h"

#include <gmock/gmock.h>

#include <cmath>

#include "planner/accuracy/levels_file.h"
#include "tests/planner/costed_runs.h"
#include "tests/support/scenarios.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

/// Returns runs on two stacks. The first has groups a (1.1 four times) and b (1.5 three times, 1.3
/// once).
std::vector<CostedRun> runs() {
  std::vector<CostedRun> all;
  all.reserve(9);
  for (int i = 0; i < 4; ++i) {
    all.push_back(run_of("one", "a", 1.1));
  }
  for (int i = 0; i < 3; ++i) {
    all.push_back(run_of("one", "b", 1.5));
  }
  all.push_back(run_of("one", "b", 1.3));
  all.push_back(run_of("two", "a", 2.0));
  return all;
}

double factor_of_first(CalibrationKind kind) {
  return calibrations_of(runs(), kind).front().factor;
}

TEST(CalibrationsOf, LeaveTheClosedFormAsItIs) {
  for (const Calibration& calibration : calibrations_of(runs(), CalibrationKind::kNone)) {
    EXPECT_FALSE(calibration.is_calibrated());
  }
}

// All rows are of one job: the fewer rows of 1.1 are left, the more the 1.5 of b count.
TEST(CalibrationsOf, LeaveOutTheRowOrItsGroup) {
  const double all = factor_of_first(CalibrationKind::kScale);
  const double others = factor_of_first(CalibrationKind::kLeaveOneOut);
  const double other_group = factor_of_first(CalibrationKind::kLeaveOneGroupOut);
  EXPECT_GT(all, std::pow(1.1, 4.0 / 8.0) * std::pow(1.5, 3.0 / 8.0) * std::pow(1.3, 1.0 / 8.0));
  EXPECT_GT(others, all);
  EXPECT_GT(other_group, others);
}

// A row on another stack is drawn to the rows of this one, since both are of unknown programs.
TEST(CalibrationsOf, DrawTheOnlyRowOfAStackToTheOthers) {
  const Calibration last = calibrations_of(runs(), CalibrationKind::kLeaveOneOut).back();
  EXPECT_EQ(last.support, (Support{.stack_runs = 0, .program_runs = 8, .all_runs = 8}));
  EXPECT_NEAR(last.factor, 1.3, 0.1);
  EXPECT_GT(last.interval.high,
            calibrations_of(runs(), CalibrationKind::kLeaveOneOut)[0].interval.high);
}

TEST(RowLevels, KnowNothingOfTheGroupLeftOut) {
  const std::vector<CostedRun> rows = runs();
  RowLevels others(shipped_levels().time.model, rows, "b");
  RowLevels all(shipped_levels().time.model, rows, std::nullopt);
  EXPECT_LT(others.fit(rows[4]).factor, all.fit(rows[4]).factor);
  EXPECT_EQ(others.fit(rows[4]).support.num_runs, 4);
  EXPECT_EQ(others.calibration(rows[4]).factor, others.fit(rows[4]).factor);
}

// By hand, one run of normal noise has the weight of what stays unknown of the job over that noise.
// The prediction moves most of the way to what that run measured, and its interval narrows. Own
// runs are of a cluster that no published run has.
TEST(CalibrateByOwn, IsWorthSomethingWithOneRun) {
  const Scenario scenario = selene_2021("1T");
  CalibrationRun own{.measured = Seconds(1.3),
                     .predicted = Seconds(1.0),
                     .job = job_name(scenario.job.model, scenario.job.global_batch_size, 3072)};
  Scenario elsewhere = scenario;
  elsewhere.cluster.name = "mine";
  elsewhere.cluster.collective_launch = 2.0 * scenario.cluster.collective_launch;
  const Calibration before = calibrate_by_published({}, elsewhere, 3072).at({});
  const CalibrationFit known = calibrate_by_own({own}, scenario, 3072);
  const Calibration after = known.at({});
  const double weight = known.variance / known.layout_variance - 1.0;
  EXPECT_GT(weight, 0.8);
  EXPECT_NEAR(std::log(after.factor),
              weight * std::log(1.3) + (1.0 - weight) * std::log(before.factor), 1e-9);
  EXPECT_LT(after.interval.half_width(), before.interval.half_width());
  own.job = "another";
  const Calibration other = calibrate_by_own({own}, scenario, 3072).at({});
  EXPECT_LT(other.factor, after.factor);
  EXPECT_GT(other.factor, before.factor);
}

// A switch of the stack's changes no place. Without scatter-gather it is the stack of 2020, too,
// whose 8 runs on Selene join the 63 and count no second time.
TEST(CalibrateByPublished, KnowsAStackWithASwitchTheOtherWay) {
  const PublishedRuns& published = published_runs();
  const CalibrationFit usual = calibrate_by_published(published, selene_2021("1T"), 3072);
  Scenario switched = selene_2021("1T");
  switched.stack.scatter_gather = !switched.stack.scatter_gather;
  const CalibrationFit found = calibrate_by_published(published, switched, 3072);
  EXPECT_EQ(usual.support.num_runs, 63);
  EXPECT_EQ(found.support.num_runs, 71);
  EXPECT_EQ(found.support.all_runs, usual.support.all_runs);
  Scenario unfused = selene_2021("1T");
  unfused.stack.fused_element_wise = false;
  EXPECT_EQ(calibrate_by_published(published, unfused, 3072).support, usual.support);
}

// No published program says anything of this project's runtime.
TEST(CalibrateByPublished, LeavesTheOwnRuntimeAlone) {
  const Scenario own = shipped_scenario("gpt-tiny", "hgx-h200", "ptdp-cuda");
  EXPECT_FALSE(calibrate_by_published({}, own, 8).is_calibrated());
}

// `ptdp-calibrate --levels` writes the file.
TEST(ShippedLevels, FollowFromThePublishedRuns) {
  const LevelSet found = make_levels(costed_published_runs().costed).time;
  const LevelSet& shipped = shipped_levels().time;
  ASSERT_EQ(found.scopes.size(), shipped.scopes.size());
  for (std::size_t i = 0; i < found.scopes.size(); ++i) {
    EXPECT_EQ(found.scopes[i].path, shipped.scopes[i].path);
    EXPECT_NEAR(found.scopes[i].mean.mean, shipped.scopes[i].mean.mean, 1e-6);
  }
  for (std::size_t level = 0; level < kNumLevels; ++level) {
    EXPECT_NEAR(found.model.variances[level], shipped.model.variances[level], 1e-5) << level;
  }
  EXPECT_NEAR(found.model.usual_scatter, shipped.model.usual_scatter, 1e-6);
}

TEST(LevelsFile, RefusesWhatNothingWrites) {
  const auto refusal = [](const std::string& from, const std::string& to) {
    std::string text = to_json(shipped_levels());
    text.replace(text.find(from), from.size(), to);
    return message_of([&] { return parse_levels(text, "levels.json"); });
  };
  EXPECT_THAT(refusal("\"noise\": 0.", "\"noise\": -0."), testing::HasSubstr("model.noise"));
  EXPECT_THAT(refusal("\"megatron\"", "\"megatrons\""), testing::HasSubstr("megatrons"));
  EXPECT_THAT(refusal("\"deepspeed-zero\"", "\"pytorch\""),
              testing::HasSubstr("levels.json: scopes: expected each once, in the order"));
}

TEST(LevelsFile, ReadsWhatItWrote) {
  const std::string text = to_json(shipped_levels());
  EXPECT_EQ(to_json(parse_levels(text, "levels.json")), text);
  EXPECT_THAT(message_of([&] { return parse_levels("{}", "levels.json"); }),
              testing::HasSubstr("levels.json: schema"));
}

// What the planner would multiply SC21's trillion with: the published runs of other jobs.
TEST(CalibrationsOf, AreThoseOfThePlannerWhereShipped) {
  const std::vector<CostedRun> costed = cost_runs(read_published_runs()).costed;
  const std::vector<Calibration> calibrations = calibrations_of(costed, CalibrationKind::kShipped);
  for (std::size_t i = 0; i < costed.size(); ++i) {
    if (costed[i].run.id == "sc21-t1-1T") {
      const CalibrationFit fit = calibrate_by_published(published_runs(), selene_2021("1T"), 3072);
      EXPECT_EQ(calibrations[i].factor, fit.factor);
      EXPECT_EQ(calibrations[i].support.num_runs, fit.support.num_runs);
      return;
    }
  }
  FAIL() << "no run of the trillion";
}

}  // namespace
}  // namespace ptdp
