// Tests of calibration factors, their scatter and their distance.
#include "cost_model/measured/calibration.h"

#include <gmock/gmock.h>

#include <cmath>
#include <vector>

namespace ptdp {
namespace {

/// Returns runs of different lengths that took `ratios` times as long as predicted.
std::vector<CalibrationRun> runs_of(const std::vector<double>& ratios) {
  std::vector<CalibrationRun> runs;
  runs.reserve(ratios.size());
  for (const double ratio : ratios) {
    const double predicted = 0.5 + 3.0 * static_cast<double>(runs.size());
    runs.push_back({.measured = Seconds(ratio * predicted), .predicted = Seconds(predicted)});
  }
  return runs;
}

CalibrationFit fit_of(const std::vector<double>& ratios) {
  return fit_calibration(runs_of(ratios));
}

TEST(FitCalibration, NeedsThreeRuns) {
  for (const std::vector<double>& ratios :
       std::vector<std::vector<double>>{{}, {1.1}, {1.1, 1.2}}) {
    const CalibrationFit fit = fit_of(ratios);
    EXPECT_FALSE(fit.is_calibrated()) << ratios.size();
    EXPECT_EQ(fit.factor, 1.0) << ratios.size();
  }
  EXPECT_TRUE(fit_of({1.1, 1.2, 1.3}).is_calibrated());
}

TEST(FitCalibration, CountsItsRuns) {
  EXPECT_EQ(fit_of({1.1, 1.2, 1.3}).num_runs(), 3);
}

TEST(FitCalibration, TakesTheMedianOfMeasuredOverPredicted) {
  EXPECT_DOUBLE_EQ(fit_of({1.3, 1.0, 1.1}).factor, 1.1);
  EXPECT_DOUBLE_EQ(fit_of({0.9, 1.3, 0.8, 1.0, 0.7}).factor, 0.9);
}

// By hand: the middle two are 1.1 and 1.2.
TEST(FitCalibration, OfAnEvenNumberLiesBetweenTheMiddleTwo) {
  const double factor = fit_of({1.0, 1.1, 1.2, 1.6}).factor;
  EXPECT_GT(factor, 1.1);
  EXPECT_LT(factor, 1.2);
}

// Five runs of 1.00 to 1.04: the median is 1.02, with any fifth run at least 1.02.
TEST(FitCalibration, IsNotMovedByAnOutlier) {
  const double without = fit_of({1.00, 1.01, 1.02, 1.03, 1.04}).factor;
  const double with = fit_of({1.00, 1.01, 1.02, 1.03, 10.0}).factor;
  EXPECT_DOUBLE_EQ(with, without);
}

// A fifth run far below shifts the median by one place, from 1.02 to 1.01.
TEST(FitCalibration, IsMovedByOnePlaceAtMost) {
  EXPECT_DOUBLE_EQ(fit_of({1.00, 1.01, 1.02, 1.03, 0.1}).factor, 1.01);
}

TEST(FitCalibration, DoesNotDependOnTheOrderOfTheRuns) {
  EXPECT_DOUBLE_EQ(fit_of({1.0, 1.1, 1.2, 1.6}).factor, fit_of({1.6, 1.1, 1.0, 1.2}).factor);
}

// Predictions twice as long: half the factor.
TEST(FitCalibration, ScalesWithThePredictions) {
  std::vector<CalibrationRun> doubled = runs_of({1.0, 1.1, 1.2, 1.6});
  for (CalibrationRun& run : doubled) {
    run.predicted = 2.0 * run.predicted;
  }
  EXPECT_DOUBLE_EQ(fit_calibration(doubled).factor, fit_of({1.0, 1.1, 1.2, 1.6}).factor / 2.0);
}

/// Returns three runs that took 1.25 times as long as predicted, on 8, 16 and 64 GPUs.
std::vector<CalibrationRun> runs_on_gpus() {
  std::vector<CalibrationRun> runs = runs_of({1.25, 1.25, 1.25});
  runs[0].point.gpus = 8;
  runs[1].point.gpus = 16;
  runs[2].point.gpus = 64;
  return runs;
}

// On 32 GPUs: two doublings from 8, one from 16, one from 64.
TEST(CalibrationFit, TellsTheDistanceWithinWhichThreeOfItsRunsLie) {
  const Calibration calibration = fit_calibration(runs_on_gpus()).at({.gpus = 32});
  EXPECT_DOUBLE_EQ(calibration.support.distance, 2.0);
  EXPECT_DOUBLE_EQ(calibration.factor, 1.25);
  EXPECT_EQ(calibration.support.num_runs, 3);
  EXPECT_EQ(calibration.interval, kIntervalModel.calibrated({.num_runs = 3, .distance = 2.0}));
}

TEST(CalibrationFit, OfNothingHasTheIntervalOfWhatIsNotCalibrated) {
  const Calibration calibration = CalibrationFit().at({.gpus = 32});
  EXPECT_FALSE(calibration.is_calibrated());
  EXPECT_EQ(calibration.interval, kIntervalModel.uncalibrated);
}

TEST(CalibrationFit, ComparesWithAQuarterOfAMillionRunsInNoTime) {
  const CalibrationFit fit{.factor = 1.1, .points = std::vector<CalibrationPoint>(250'000)};
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(fit.at({.gpus = 2}).support.distance, 1.0);
  }
}

// By hand for ratios 1.0, 1.1, 1.2, 1.6: the medians of the other three are 1.2, 1.2, 1.1, 1.1.
TEST(LeaveOneOut, HasTheFactorsOfTheOthers) {
  const std::vector<Calibration> found = leave_one_out(runs_of({1.0, 1.1, 1.2, 1.6}));
  ASSERT_EQ(found.size(), 4U);
  const std::vector<double> expected = {1.2, 1.2, 1.1, 1.1};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(found[i].factor, expected[i], 1e-12) << i;
    EXPECT_EQ(found[i].support.num_runs, 3) << i;
  }
}

// Two of three runs are left, which is too few.
TEST(LeaveOneOut, IsNotCalibratedWhereTheOthersAreTooFew) {
  for (const Calibration& calibration : leave_one_out(runs_of({1.25, 2.0, 0.5}))) {
    EXPECT_FALSE(calibration.is_calibrated());
    EXPECT_EQ(calibration.factor, 1.0);
  }
  EXPECT_TRUE(leave_one_out({}).empty());
}

// A fourth run on 8 GPUs is at a distance of 0, 1 and 3 from the others.
TEST(LeaveOneOut, HasTheDistanceToTheOthers) {
  std::vector<CalibrationRun> runs = runs_on_gpus();
  runs.push_back(runs.front());
  EXPECT_DOUBLE_EQ(leave_one_out(runs).back().support.distance, 3.0);
}

// By hand: five runs off the middle one by factors of e to the 0.1, 0.2, 0, 0.2 and 0.4; in order
// 0, 0.1, 0.2, 0.2, 0.4, of which the 90th percentile lies 0.6 of the way from 0.2 to 0.4.
TEST(FitCalibration, TellsHowFarItsRunsScatter) {
  const CalibrationFit fit =
      fit_of({std::exp(-0.1), std::exp(-0.2), 1.0, std::exp(0.2), std::exp(0.4)});
  EXPECT_NEAR(fit.spread, 0.32, 1e-12);
}

// The last one left out: 0, 0.1, 0.2, 0.2, whose 90th percentile is 0.2. The first left out: 0,
// 0.2, 0.2, 0.4, 0.7 of the way from 0.2 to 0.4.
TEST(LeaveOneOut, HasTheScatterOfTheOthers) {
  const std::vector<Calibration> found =
      leave_one_out(runs_of({std::exp(-0.1), std::exp(-0.2), 1.0, std::exp(0.2), std::exp(0.4)}));
  EXPECT_NEAR(found.back().support.spread, 0.2, 1e-12);
  EXPECT_NEAR(found.front().support.spread, 0.34, 1e-12);
}

// By hand: absolute values 0.1, 0.2, 0.4, 0; in order 0, 0.1, 0.2, 0.4.
TEST(Summarize, MatchesTheHandComputedFigures) {
  const ErrorSummary summary = to_text(std::vector<double>{0.1, -0.2, 0.4, 0.0});
  EXPECT_EQ(summary.count, 4);
  EXPECT_NEAR(summary.mean_absolute, 0.175, 1e-12);
  EXPECT_NEAR(summary.median_absolute, 0.15, 1e-12);
  EXPECT_NEAR(summary.p90_absolute, 0.34, 1e-12);  // 0.7 of the way from 0.2 to 0.4
  EXPECT_NEAR(summary.max_absolute, 0.4, 1e-12);
  EXPECT_NEAR(summary.bias, 0.075, 1e-12);
}

TEST(Summarize, FindsTheWorstOnEitherSide) {
  EXPECT_NEAR(to_text(std::vector<double>{0.1, -0.7, 0.4}).max_absolute, 0.7, 1e-12);
}

TEST(Summarize, OfNothingIsZero) {
  const ErrorSummary summary = to_text({});
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.mean_absolute, 0.0);
  EXPECT_EQ(summary.max_absolute, 0.0);
}

}  // namespace
}  // namespace ptdp
