// Tests of factors that are fitted to measured runs.
#include "planner/accuracy/calibration_fit.h"

#include <gmock/gmock.h>

#include <cmath>
#include <memory>

#include "cost_model/inputs/catalog/catalog.h"
#include "tests/planner/costed_runs.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Returns runs of a stack on Selene that took `ratios` seconds and were predicted at one second.
std::vector<CostedRun> runs_of(const std::string& stack, const std::vector<double>& ratios) {
  std::vector<CostedRun> runs;
  runs.reserve(ratios.size());
  for (const double ratio : ratios) {
    runs.push_back(run_of(stack, "", ratio));
  }
  return runs;
}

// By hand for ratios 1.0, 1.25, 1.25, 2.0: the factor is 1.25, the errors +25, 0, 0 and -37.5 %.
// Without one of them the middle of the other three is 1.25, every time.
TEST(StackFit, MatchesTheHandComputedFigures) {
  const std::vector<StackFit> refits =
      refit(runs_of("megatron-core-2024", {1.0, 1.25, 1.25, 2.0}), "runs.csv");
  ASSERT_EQ(refits.size(), 1U);
  const StackFit& found = refits.front();
  EXPECT_NEAR(found.calibration.fit().factor, 1.25, 1e-12);
  EXPECT_EQ(found.calibration.source, "runs.csv");
  EXPECT_NEAR(found.in_sample.mean_absolute, 0.625 / 4.0, 1e-12);
  EXPECT_NEAR(found.leave_one_out.mean_absolute, 0.625 / 4.0, 1e-12);
  // Nothing is published of that stack there: the errors are 0, -20, -20 and -50 %.
  EXPECT_FALSE(found.shipped.is_calibrated());
  EXPECT_NEAR(found.shipped_errors.mean_absolute, 0.9 / 4.0, 1e-12);
}

TEST(StackFit, HasNoFactorOfTwoRuns) {
  const std::vector<StackFit> refits = refit(runs_of("megatron-lm-2021", {1.0, 1.25}), "runs.csv");
  EXPECT_FALSE(refits.front().is_fitted());
  EXPECT_THAT(to_text(refits, {}), HasSubstr("none: fewer than 3 runs"));
}

TEST(StackFit, ShowsTheShippedFactorBesideItsOwn) {
  const std::vector<StackFit> refits =
      refit(runs_of("megatron-lm-2021", {1.2, 1.2, 1.2}), "runs.csv");
  EXPECT_TRUE(refits.front().shipped.is_calibrated());
  EXPECT_THAT(to_text(refits, {{"x", "g", "a reason"}}),
              testing::AllOf(HasSubstr("x1.200"), HasSubstr("1  a reason")));
}

TEST(WriteCalibrations, WritesAFilePerClusterAndStack) {
  const TemporaryDirectory directory;
  const std::filesystem::path made = directory.path() / "new" / "deeper";
  std::vector<CostedRun> runs = runs_of("megatron-lm-2021", {1.2, 1.2, 1.2});
  for (const CostedRun& run : runs_of("megatron-lm-2022", {1.2, 1.2})) {
    runs.push_back(run);
  }
  write_calibrations(made, refit(runs, "runs.csv"));
  EXPECT_TRUE(std::filesystem::exists(made / "selene-a100+megatron-lm-2021.json"));
  EXPECT_FALSE(std::filesystem::exists(made / "selene-a100+megatron-lm-2022.json"));
}

TEST(WriteCalibrations, RefusesTheShippedProfiles) {
  const std::vector<StackFit> refits =
      refit(runs_of("megatron-lm-2021", {1.2, 1.2, 1.2}), "runs.csv");
  for (const char* inside : {".", "stacks", "new/deeper", "stacks/../new"}) {
    EXPECT_THAT(message_of([&] {
                  write_calibrations(profiles_directory() / inside, refits);
                  return 0;
                }),
                HasSubstr("lies in the shipped profiles"))
        << inside;
  }
  EXPECT_FALSE(std::filesystem::exists(profiles_directory() / "new"));
}

TEST(WriteCalibrations, SaysHowManyRunsOfWhichFileThereAre) {
  const TemporaryDirectory directory;
  const std::vector<StackFit> refits = refit(runs_of("megatron-lm-2021", {1.2, 1.2}), "runs.csv");
  EXPECT_EQ(message_of([&] {
              write_calibrations(directory.path() / "new", refits);
              return 0;
            }),
            "runs.csv: nothing to write: expected 3 runs of one cluster and stack that can be "
            "costed, got 2 of selene-a100 + megatron-lm-2021");
}

TEST(WriteCalibrations, RefusesToWriteNothing) {
  const TemporaryDirectory directory;
  EXPECT_THAT(message_of([&] {
                write_calibrations(directory.path() / "new", {});
                return 0;
              }),
              HasSubstr("nothing to write"));
  EXPECT_FALSE(std::filesystem::exists(directory.path() / "new"));
}

// Three runs of 1.2; two are too few for a factor.
TEST(RefitTable, ShowsFactorsAndErrorsBesideTheShippedOnes) {
  const auto made_up = [](const std::string& stack, std::size_t runs) {
    StackFit refit{.calibration = {.cluster = "c", .stack = stack},
                   .shipped_errors = {.mean_absolute = 0.25},
                   .in_sample = {.mean_absolute = 0.1},
                   .leave_one_out = {.mean_absolute = 0.125}};
    refit.calibration.runs.resize(runs);
    for (NamedCalibrationRun& run : refit.calibration.runs) {
      run.run = {.measured = Seconds(1.2), .predicted = Seconds(1.0)};
    }
    return refit;
  };
  std::vector<StackFit> refits = {made_up("s", 3), made_up("t", 2)};
  refits[0].shipped = {.factor = 1.5, .points = std::vector<CalibrationPoint>(3)};
  refits[1].calibration.has_experts = true;
  EXPECT_THAT(
      to_text(refits, {}),
      testing::EndsWith("\nc + s                                                3    x1.500   25.0"
                        "    x1.200      10.0          12.5\n"
                        "c + t, experts                                       2      none   25.0"
                        "  none: fewer than 3 runs\n"));
}

// Runs of ptdp-run hold their profiles: those of one name must be one.
TEST(StackFit, RefusesTwoMachinesOfOneName) {
  std::vector<CostedRun> runs = runs_of("megatron-lm-2021", {1.2, 1.2, 1.2});
  Scenario scenario = scenario_of(runs[0]);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    runs[i].run.source = std::string(1, static_cast<char>('a' + i)) + ".json";
    runs[i].scenario = std::make_shared<const Scenario>(scenario);
  }
  EXPECT_EQ(refit(runs, "files").size(), 1U);
  scenario.cluster.nvlink.efficiency *= 0.5;
  runs[2].scenario = std::make_shared<const Scenario>(scenario);
  EXPECT_EQ(
      message_of([&] { return refit(runs, "files"); }),
      "c.json: its selene-a100 or megatron-lm-2021 differs from that of a.json; expected runs "
      "of one machine");
}

}  // namespace
}  // namespace ptdp
