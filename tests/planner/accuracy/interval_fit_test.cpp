// Tests of how interval constants are fitted and checked on held-out groups.
#include "planner/accuracy/interval_fit.h"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/planner/costed_runs.h"

namespace ptdp {
namespace {

/// Returns three rows of 1.2 in group a and four of 1.5 in group b, on one stack.
std::vector<CostedRun> two_groups() {
  std::vector<CostedRun> runs;
  runs.reserve(7);
  for (int i = 0; i < 3; ++i) {
    runs.push_back(run_of("one", "a", 1.2));
  }
  for (int i = 0; i < 4; ++i) {
    runs.push_back(run_of("one", "b", 1.5));
  }
  return runs;
}

// If one row of 1.2 is left out, the middle two of the other six are 1.5; without group a all are
// 1.5. Without group b all are 1.2, so the rows of b are 1.5/1.2 off.
TEST(IntervalResiduals, LeaveOutTheRowAndItsGroup) {
  const IntervalResiduals residuals = interval_residuals(two_groups());
  ASSERT_EQ(residuals.calibrated.size(), 14U);
  EXPECT_NEAR(residuals.calibrated[0].log_ratio, std::log(1.2 / 1.5), 1e-12);
  EXPECT_EQ(residuals.calibrated[0].group, "leave-one-out a");
  EXPECT_EQ(residuals.calibrated[0].support.num_runs, 6);
  EXPECT_NEAR(residuals.calibrated[13].log_ratio, std::log(1.5 / 1.2), 1e-12);
  EXPECT_EQ(residuals.calibrated[13].group, "leave-one-group-out b");
  EXPECT_EQ(residuals.calibrated[13].support.num_runs, 3);
}

TEST(IntervalResiduals, HoldEveryRunWithoutCalibration) {
  const IntervalResiduals residuals = interval_residuals(two_groups());
  ASSERT_EQ(residuals.uncalibrated.size(), 7U);
  EXPECT_NEAR(residuals.uncalibrated[0].log_ratio, std::log(1.2), 1e-12);
}

// A group alone on its stack is predicted without calibration; all that is known of such
// predictions is the other group's 1.2, so that 2.0 lies outside.
TEST(HeldOutCoverage, KnowsNothingOfTheGroup) {
  std::vector<CostedRun> runs;
  for (int i = 0; i < 4; ++i) {
    runs.push_back(run_of("one", "a", 1.2));
    runs.push_back(run_of("two", "b", 2.0));
  }
  const std::vector<HeldOutCoverage> coverages = held_out_coverage(runs);
  ASSERT_EQ(coverages.size(), 2U);
  EXPECT_EQ(coverages[0].num_calibrated, 0);
  EXPECT_EQ(coverages[0].inside_interval, 1.0);  // 1.2 lies between 1 and the 2.0 of b
  EXPECT_EQ(coverages[1].inside_interval, 0.0);
  EXPECT_EQ(to_text(coverages).inside_interval, 0.5);
}

// On one stack the three rows of a are calibrated by the four of b, and these by the three of a.
TEST(HeldOutCoverage, CountsRunsAndWidthsOfEachKind) {
  std::vector<CostedRun> runs = two_groups();
  runs.push_back(run_of("two", "b", 1.5));  // alone on its stack
  const std::vector<HeldOutCoverage> coverages = held_out_coverage(runs);
  ASSERT_EQ(coverages.size(), 2U);
  EXPECT_EQ(coverages[0].group, "a");
  EXPECT_EQ(coverages[0].num_runs, 3);
  EXPECT_EQ(coverages[0].num_calibrated, 3);
  EXPECT_EQ(coverages[0].calibrated_half_widths.size(), 3U);
  EXPECT_TRUE(coverages[0].uncalibrated_half_widths.empty());
  EXPECT_EQ(coverages[1].num_runs, 5);
  EXPECT_EQ(coverages[1].num_calibrated, 4);
  EXPECT_EQ(coverages[1].calibrated_half_widths.size(), 4U);
  EXPECT_EQ(coverages[1].uncalibrated_half_widths.size(), 1U);
}

// Groups count alike, however many runs they have; widths are those of all runs.
TEST(HeldOutCoverage, IsTheMeanOfTheGroups) {
  const CoverageSummary summary = to_text(
      {{.group = "a",
        .num_runs = 10,
        .inside_interval = 0.9,
        .calibrated_half_widths = {0.1, 0.2},
        .uncalibrated_half_widths = {0.3}},
       {.group = "b", .num_runs = 1, .inside_interval = 0.5, .calibrated_half_widths = {0.4}}});
  EXPECT_NEAR(summary.inside_interval, 0.7, 1e-12);
  EXPECT_EQ(summary.calibrated_half_widths, (std::vector<double>{0.1, 0.2, 0.4}));
  EXPECT_EQ(summary.uncalibrated_half_widths, std::vector<double>{0.3});
}

}  // namespace
}  // namespace ptdp
