#include "cost_model/calibration/calibration.h"

#include <gmock/gmock.h>

#include <cmath>
#include <tuple>
#include <vector>

namespace ptdp {
namespace {

using testing::DoubleNear;
using testing::Each;
using testing::ElementsAre;

/// Runs that took `ratios` times as long as predicted, of different lengths.
std::vector<CalibrationRun> runs_of(const std::vector<double>& ratios) {
  std::vector<CalibrationRun> runs;
  runs.reserve(ratios.size());
  for (const double ratio : ratios) {
    const double predicted = 0.5 + 3.0 * static_cast<double>(runs.size());
    runs.push_back({.measured = Seconds(ratio * predicted), .predicted = Seconds(predicted)});
  }
  return runs;
}

std::vector<CalibrationRun> runs_of_logarithms(const std::vector<double>& logarithms) {
  std::vector<double> ratios;
  ratios.reserve(logarithms.size());
  for (const double logarithm : logarithms) {
    ratios.push_back(std::exp(logarithm));
  }
  return runs_of(ratios);
}

/// The half-width of the interval, in logarithms.
double half_width(const std::vector<double>& logarithms) {
  return std::log(calibrate(runs_of_logarithms(logarithms)).interval.high);
}

TEST(Calibrate, NeedsThreeRuns) {
  for (const std::vector<double>& ratios :
       std::vector<std::vector<double>>{{}, {1.1}, {1.1, 1.2}}) {
    const Calibration found = calibrate(runs_of(ratios));
    EXPECT_EQ(std::tuple(found.num_runs, found.factor, found.interval.low, found.interval.high),
              std::tuple(0, 1.0, kUncalibratedInterval.low, kUncalibratedInterval.high))
        << ratios.size();
  }
}

TEST(Calibrate, SaysWhetherItRestsOnRuns) {
  EXPECT_FALSE(calibrate(runs_of({1.1, 1.2})).is_calibrated());
  EXPECT_TRUE(calibrate(runs_of({1.1, 1.2, 1.3})).is_calibrated());
}

TEST(Calibrate, CountsItsRuns) {
  EXPECT_EQ(calibrate(runs_of({1.1, 1.2, 1.3})).num_runs, 3);
}

TEST(Calibrate, TakesTheMedianOfMeasuredOverPredicted) {
  EXPECT_DOUBLE_EQ(calibrate(runs_of({1.3, 1.0, 1.1})).factor, 1.1);
  EXPECT_DOUBLE_EQ(calibrate(runs_of({0.9, 1.3, 0.8, 1.0, 0.7})).factor, 0.9);
}

// By hand: the middle two are 1.1 and 1.2.
TEST(Calibrate, OfAnEvenNumberLiesBetweenTheMiddleTwo) {
  const double factor = calibrate(runs_of({1.0, 1.1, 1.2, 1.6})).factor;
  EXPECT_GT(factor, 1.1);
  EXPECT_LT(factor, 1.2);
}

TEST(Calibrate, GivesRunsThatAgreeTheirRatioAndNoInterval) {
  const Calibration calibration = calibrate(runs_of({1.25, 1.25, 1.25, 1.25}));
  EXPECT_DOUBLE_EQ(calibration.factor, 1.25);
  EXPECT_NEAR(calibration.interval.low, 1.0, 1e-12);
  EXPECT_NEAR(calibration.interval.high, 1.0, 1e-12);
}

// Five runs of 1.00 to 1.04: the median is 1.02, with any fifth run at least 1.02.
TEST(Calibrate, IsNotMovedByAnOutlier) {
  const double without = calibrate(runs_of({1.00, 1.01, 1.02, 1.03, 1.04})).factor;
  const double with = calibrate(runs_of({1.00, 1.01, 1.02, 1.03, 10.0})).factor;
  EXPECT_DOUBLE_EQ(with, without);
}

// A fifth run far below shifts the median by one place, from 1.02 to 1.01.
TEST(Calibrate, IsMovedByOnePlaceAtMost) {
  EXPECT_DOUBLE_EQ(calibrate(runs_of({1.00, 1.01, 1.02, 1.03, 0.1})).factor, 1.01);
}

TEST(Calibrate, DoesNotDependOnTheOrderOfTheRuns) {
  const Calibration one = calibrate(runs_of({1.0, 1.1, 1.2, 1.6}));
  const Calibration other = calibrate(runs_of({1.6, 1.1, 1.0, 1.2}));
  EXPECT_DOUBLE_EQ(one.factor, other.factor);
  EXPECT_DOUBLE_EQ(one.interval.high, other.interval.high);
}

// Predictions twice as long: half the factor, the same spread.
TEST(Calibrate, ScalesWithThePredictions) {
  const std::vector<CalibrationRun> runs = runs_of({1.0, 1.1, 1.2, 1.6});
  std::vector<CalibrationRun> doubled = runs;
  for (CalibrationRun& run : doubled) {
    run.predicted = 2.0 * run.predicted;
  }
  EXPECT_DOUBLE_EQ(calibrate(doubled).factor, calibrate(runs).factor / 2.0);
  EXPECT_NEAR(calibrate(doubled).interval.high, calibrate(runs).interval.high, 1e-12);
}

// By hand for logarithms 0, 0.1, 0.2, 0.6: the medians of the other three are 0.2, 0.2, 0.1, 0.1,
// the residuals -0.2, -0.1, 0.1, 0.5, s² = 0.31/4; times 1 + 1/4: sqrt(0.096875) = 0.3112475;
// Student's t of 3 degrees is 2.353.
TEST(CalibrationInterval, OfFourRunsMatchesTheHandComputedOne) {
  const Calibration calibration = calibrate(runs_of_logarithms({0.0, 0.1, 0.2, 0.6}));
  EXPECT_NEAR(std::log(calibration.interval.high), 2.353 * 0.3112475, 1e-6);
  EXPECT_NEAR(std::log(calibration.interval.low), -2.353 * 0.3112475, 1e-6);
}

// By hand for logarithms 0, 0.1, 0.3: medians of the other two 0.2, 0.15, 0.05, residuals -0.2,
// -0.05, 0.25, s² = 0.105/3; times 4/3: sqrt(0.0466667) = 0.2160247; t of 2 degrees is 2.920.
TEST(CalibrationInterval, OfThreeRunsMatchesTheHandComputedOne) {
  EXPECT_NEAR(half_width({0.0, 0.1, 0.3}), 2.920 * 0.2160247, 1e-6);
}

// k runs of +a, k of -a, one of 0. Without one of ±a, the median of the others is ∓a/2, so that the
// residual is ±3a/2; without the middle one it is 0: s² = 2k·(9/4)a²/(2k+1). The 95th percentiles
// of Student's t are those of standard tables.
TEST(CalibrationInterval, FollowsStudentsTable) {
  struct Row {
    int degrees;
    double t95;
  };
  constexpr double size = 0.1;
  for (const Row row : {Row{4, 2.132}, Row{10, 1.812}, Row{20, 1.725}, Row{30, 1.697},
                        Row{40, 1.684}, Row{60, 1.671}, Row{120, 1.658}, Row{1000, 1.646}}) {
    std::vector<double> logarithms = {0.0};
    for (int i = 0; i < row.degrees / 2; ++i) {
      logarithms.push_back(size);
      logarithms.push_back(-size);
    }
    const double n = row.degrees + 1.0;
    const double spread = std::sqrt(row.degrees * 2.25 * size * size / n);
    EXPECT_NEAR(half_width(logarithms) / (spread * std::sqrt(1.0 + 1.0 / n)), row.t95, 0.0011)
        << row.degrees;
  }
}

// By hand for ratios 1.0, 1.1, 1.2, 1.6: the medians of the other three are 1.2, 1.2, 1.1, 1.1.
TEST(LeaveOneOutErrors, MatchTheHandComputedOnes) {
  EXPECT_THAT(leave_one_out_errors(runs_of({1.0, 1.1, 1.2, 1.6})),
              ElementsAre(DoubleNear(0.2, 1e-12), DoubleNear(1.2 / 1.1 - 1.0, 1e-12),
                          DoubleNear(1.1 / 1.2 - 1.0, 1e-12), DoubleNear(-0.3125, 1e-12)));
}

// Of three runs, two are left: too few, so that the prediction stands as it is: 1/1.25 − 1, ...
TEST(LeaveOneOutErrors, AreThoseOfTheBarePredictionWhereTheOthersAreTooFew) {
  EXPECT_THAT(
      leave_one_out_errors(runs_of({1.25, 2.0, 0.5})),
      ElementsAre(DoubleNear(-0.2, 1e-12), DoubleNear(-0.5, 1e-12), DoubleNear(1.0, 1e-12)));
}

TEST(LeaveOneOutErrors, OfRunsThatAgreeAreNothing) {
  EXPECT_THAT(leave_one_out_errors(runs_of({1.3, 1.3, 1.3, 1.3, 1.3})),
              Each(DoubleNear(0.0, 1e-12)));
}

TEST(LeaveOneOutErrors, OfNoRunsAreNone) {
  EXPECT_TRUE(leave_one_out_errors({}).empty());
}

// By hand: absolute values 0.1, 0.2, 0.4, 0; in order 0, 0.1, 0.2, 0.4.
TEST(Summarize, MatchesTheHandComputedFigures) {
  const ErrorSummary summary = summarize(std::vector<double>{0.1, -0.2, 0.4, 0.0});
  EXPECT_EQ(summary.count, 4);
  EXPECT_NEAR(summary.mean_absolute, 0.175, 1e-12);
  EXPECT_NEAR(summary.median_absolute, 0.15, 1e-12);
  EXPECT_NEAR(summary.max_absolute, 0.4, 1e-12);
  EXPECT_NEAR(summary.bias, 0.075, 1e-12);
}

TEST(Summarize, FindsTheWorstOnEitherSide) {
  EXPECT_NEAR(summarize(std::vector<double>{0.1, -0.7, 0.4}).max_absolute, 0.7, 1e-12);
}

TEST(Summarize, OfNothingIsZero) {
  const ErrorSummary summary = summarize({});
  EXPECT_EQ(summary.count, 0);
  EXPECT_EQ(summary.mean_absolute, 0.0);
  EXPECT_EQ(summary.max_absolute, 0.0);
}

}  // namespace
}  // namespace ptdp
