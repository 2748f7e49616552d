#include "planner/accuracy/calibration_refit.h"

#include <gmock/gmock.h>

#include <cmath>

#include "cost_model/inputs/catalog/catalog.h"
#include "tests/planner/costed_runs.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Runs of a stack on Selene, predicted at a second, that took `ratios` seconds.
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
TEST(Refit, MatchesTheHandComputedFigures) {
  const std::vector<Refit> refits =
      refit(runs_of("megatron-core-2024", {1.0, 1.25, 1.25, 2.0}), "runs.csv");
  ASSERT_EQ(refits.size(), 1U);
  const Refit& found = refits.front();
  EXPECT_NEAR(found.calibration.fit().factor, 1.25, 1e-12);
  EXPECT_EQ(found.calibration.source, "runs.csv");
  EXPECT_NEAR(found.in_sample.mean_absolute, 0.625 / 4.0, 1e-12);
  EXPECT_NEAR(found.leave_one_out.mean_absolute, 0.625 / 4.0, 1e-12);
  // Nothing is published of that stack there: the errors are 0, -20, -20 and -50 %.
  EXPECT_FALSE(found.shipped.is_calibrated());
  EXPECT_NEAR(found.shipped_errors.mean_absolute, 0.9 / 4.0, 1e-12);
}

TEST(Refit, HasNoFactorOfTwoRuns) {
  const std::vector<Refit> refits = refit(runs_of("megatron-lm-2021", {1.0, 1.25}), "runs.csv");
  EXPECT_FALSE(refits.front().is_fitted());
  EXPECT_THAT(to_table(refits, {}), HasSubstr("none: fewer than 3 runs"));
}

TEST(Refit, ShowsTheShippedFactorBesideItsOwn) {
  const std::vector<Refit> refits = refit(runs_of("megatron-lm-2021", {1.2, 1.2, 1.2}), "runs.csv");
  EXPECT_TRUE(refits.front().shipped.is_calibrated());
  EXPECT_THAT(to_table(refits, {{"x", "g", "a reason"}}),
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
  const std::vector<Refit> refits = refit(runs_of("megatron-lm-2021", {1.2, 1.2, 1.2}), "runs.csv");
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
  const std::vector<Refit> refits = refit(runs_of("megatron-lm-2021", {1.2, 1.2}), "runs.csv");
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

}  // namespace
}  // namespace ptdp
