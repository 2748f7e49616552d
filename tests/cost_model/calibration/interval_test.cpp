#include "cost_model/calibration/interval.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ptdp {
namespace {

const IntervalModel kModel = {.near = 0.06, .per_distance = 0.02, .uncalibrated = {0.8, 1.6}};

// By hand: sqrt(0.06² + (0.02·4)²) = 0.1; with 8 runs times sqrt(9/8).
TEST(CalibratedInterval, MatchesTheHandComputedOne) {
  const RelativeInterval interval = kModel.calibrated(4.0, 8);
  EXPECT_NEAR(std::log(interval.high), 0.1 * std::sqrt(9.0 / 8.0), 1e-12);
  EXPECT_NEAR(interval.low * interval.high, 1.0, 1e-12);
}

TEST(CalibratedInterval, WidensAwayFromItsRuns) {
  EXPECT_LT(kModel.calibrated(0.0, 10).high, kModel.calibrated(2.0, 10).high);
  EXPECT_LT(kModel.calibrated(2.0, 10).high, kModel.calibrated(6.0, 10).high);
}

TEST(CalibratedInterval, NarrowsWithTheNumberOfRuns) {
  EXPECT_GT(kModel.calibrated(1.0, 3).high, kModel.calibrated(1.0, 30).high);
}

// ln(1.6/0.8)/2 = ln(2)/2: the interval from 1/sqrt(2) to sqrt(2).
TEST(CalibratedInterval, IsNeverWiderThanThatOfWhatIsNotCalibrated) {
  const RelativeInterval interval = kModel.calibrated(1000.0, 3);
  EXPECT_NEAR(interval.high, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(interval.low, std::sqrt(0.5), 1e-12);
}

/// Residuals of groups a and b: `count` at each of the distances 0 and 1 with ±`at_zero`,
/// ±`at_one`.
std::vector<Residual> residuals_of(double at_zero, double at_one) {
  std::vector<Residual> residuals;
  for (const char* group : {"a", "b"}) {
    for (const double sign : {-1.0, 1.0}) {
      residuals.push_back({group, sign * at_zero, 0.0, 1'000'000});
      residuals.push_back({group, sign * at_one, 1.0, 1'000'000});
    }
  }
  return residuals;
}

// All residuals beside the runs are 0.05 and those at 1 are 0.13: the narrowest that miss none, as
// 0.05² + 0.12² = 0.13². A miss costs ten times its size, so none is missed.
TEST(FitIntervalModel, FindsTheWidthsThatLeaveNothingOutside) {
  const IntervalModel model = fit_interval_model(residuals_of(0.05, 0.13), {});
  EXPECT_NEAR(model.near, 0.05, 1e-9);
  EXPECT_NEAR(model.per_distance, 0.12, 1e-9);
}

TEST(FitIntervalModel, HasTheLeastSlopeWhereDistanceDoesNotMatter) {
  const IntervalModel model = fit_interval_model(residuals_of(0.1, 0.1), {});
  EXPECT_NEAR(model.near, 0.1, 1e-9);
  EXPECT_NEAR(model.per_distance, 0.01, 1e-9);
}

// One group has 95 rows that are not off at all, the other 5 that are 20 % off: half of the weight.
TEST(FitIntervalModel, CountsAGroupOnceHoweverManyRowsItHas) {
  std::vector<Residual> residuals;
  residuals.reserve(100);
  for (int i = 0; i < 95; ++i) {
    residuals.push_back({"many", 0.0, 0.0, 1'000'000});
  }
  for (int i = 0; i < 5; ++i) {
    residuals.push_back({"few", std::log(1.2), 0.0, 1'000'000});
  }
  EXPECT_GT(fit_interval_model(residuals, {}).near, 0.15);
}

// By hand: of 40 groups of a row each, from 0.505 to 1.480 in steps of 0.025, 1 − 0.9·(1 + 1/40) =
// 0.0775 may lie outside: 1.55 rows on each side, so that the second and the 39th are the ends,
// 0.53 and 1.455, rounded outwards to 0.53 and 1.46.
TEST(FitIntervalModel, TakesThePercentilesOfWhatIsNotCalibrated) {
  std::vector<Residual> residuals;
  residuals.reserve(40);
  for (int i = 0; i < 40; ++i) {
    residuals.push_back({std::to_string(i), std::log(0.505 + 0.025 * i), 0.0, 0});
  }
  const RelativeInterval interval = fit_interval_model({}, residuals).uncalibrated;
  EXPECT_NEAR(interval.low, 0.53, 1e-9);
  EXPECT_NEAR(interval.high, 1.46, 1e-9);
}

// The same 40 rows in one group: next to nothing may lie outside, 0.4 rows on each side.
TEST(FitIntervalModel, IsWiderWhereItKnowsFewGroups) {
  std::vector<Residual> residuals;
  residuals.reserve(40);
  for (int i = 0; i < 40; ++i) {
    residuals.push_back({"group", std::log(0.505 + 0.025 * i), 0.0, 0});
  }
  const RelativeInterval interval = fit_interval_model({}, residuals).uncalibrated;
  EXPECT_NEAR(interval.low, 0.50, 1e-9);
  EXPECT_NEAR(interval.high, 1.48, 1e-9);
}

TEST(FitIntervalModel, KeepsThePredictionInside) {
  const std::vector<Residual> residuals = {{"group", std::log(1.1), 0.0, 0},
                                           {"group", std::log(1.2), 0.0, 0}};
  EXPECT_EQ(fit_interval_model({}, residuals).uncalibrated.low, 1.0);
}

}  // namespace
}  // namespace ptdp
