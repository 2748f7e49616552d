// Tests of prediction intervals, and of the fit of their constants.
#include "cost_model/measured/interval.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ptdp {
namespace {

const IntervalModel kModel = {.near = 0.06, .per_distance = 0.02, .uncalibrated = {0.8, 1.6}};

// By hand: sqrt(0.06² + (0.02·4)²) = 0.1; with 8 runs that scatter by 0.06 too times sqrt(9/8).
TEST(CalibratedInterval, MatchesTheHandComputedOne) {
  const RelativeInterval interval =
      kModel.calibrated({.num_runs = 8, .distance = 4.0, .spread = 0.06});
  EXPECT_NEAR(std::log(interval.high), 0.1 * std::sqrt(9.0 / 8.0), 1e-12);
  EXPECT_NEAR(interval.low * interval.high, 1.0, 1e-12);
}

TEST(CalibratedInterval, WidensAwayFromItsRuns) {
  const auto high = [](double distance) {
    return kModel.calibrated({.num_runs = 10, .distance = distance}).high;
  };
  EXPECT_LT(high(0.0), high(2.0));
  EXPECT_LT(high(2.0), high(6.0));
}

TEST(CalibratedInterval, NarrowsWithTheNumberOfRuns) {
  const auto high = [](int num_runs) {
    return kModel.calibrated({.num_runs = num_runs, .distance = 1.0, .spread = 0.06}).high;
  };
  EXPECT_GT(high(3), high(30));
}

// By hand: (10·0.06² + 10·0.1²)/20 = 0.0068.
TEST(CalibratedInterval, IsHalfWayToTheScatterOfTenRuns) {
  const RelativeInterval interval = kModel.calibrated({.num_runs = 10, .spread = 0.1});
  EXPECT_NEAR(std::log(interval.high), std::sqrt(0.0068 * 1.1), 1e-12);
}

// ln(1.6/0.8)/2 = ln(2)/2: the interval from 1/sqrt(2) to sqrt(2).
TEST(CalibratedInterval, IsNeverWiderThanThatOfWhatIsNotCalibrated) {
  const RelativeInterval interval = kModel.calibrated({.num_runs = 3, .distance = 1000.0});
  EXPECT_NEAR(interval.high, std::sqrt(2.0), 1e-12);
  EXPECT_NEAR(interval.low, std::sqrt(0.5), 1e-12);
}

/// Returns residuals of groups a and b, calibrated by few runs: ±`at_zero` at distance 0, ±`at_one`
/// at distance 1.
std::vector<Residual> residuals_of(double at_zero, double at_one) {
  std::vector<Residual> residuals;
  for (const char* group : {"a", "b"}) {
    for (const double sign : {-1.0, 1.0}) {
      residuals.push_back({group, sign * at_zero, {.num_runs = 1, .distance = 0.0}});
      residuals.push_back({group, sign * at_one, {.num_runs = 1, .distance = 1.0}});
    }
  }
  return residuals;
}

// A run that scatters by nothing: the width at 0 is near·sqrt(10/11·2). The narrowest grid point
// that holds 0.13 is near = 0.10 (0.1348); 0.09 would be 0.1214.
TEST(FitIntervalModel, FindsTheWidthThatLeavesNothingOutside) {
  const IntervalModel model = fit_interval_model(residuals_of(0.13, 0.13), {});
  EXPECT_NEAR(model.near, 0.10, 1e-9);
  EXPECT_NEAR(model.per_distance, 0.01, 1e-9);
}

// At a distance of 1, sqrt((0.05²·10/11 + per_distance²)·2) reaches 0.25 with 0.175 and not with
// 0.17.
TEST(FitIntervalModel, FindsTheSlopeThatLeavesNothingOutside) {
  const IntervalModel model = fit_interval_model(residuals_of(0.065, 0.25), {});
  EXPECT_NEAR(model.near, 0.05, 1e-9);
  EXPECT_NEAR(model.per_distance, 0.175, 1e-9);
}

// One group has 95 rows that are not off at all, the other 5 that are 20 % off: half of the weight.
TEST(FitIntervalModel, CountsAGroupOnceHoweverManyRowsItHas) {
  std::vector<Residual> residuals;
  residuals.reserve(100);
  for (int i = 0; i < 95; ++i) {
    residuals.push_back({"many", 0.0, {.num_runs = 1}});
  }
  for (int i = 0; i < 5; ++i) {
    residuals.push_back({"few", std::log(1.2), {.num_runs = 1}});
  }
  EXPECT_GT(fit_interval_model(residuals, {}).near, 0.13);
}

// By hand: of 40 groups of a row each, from 0.505 to 1.480 in steps of 0.025, 7 % may lie outside:
// 1.4 rows on each side, so that the second and the 39th are the ends, 0.53 and 1.455, rounded
// outwards.
TEST(FitIntervalModel, TakesThePercentilesOfWhatIsNotCalibrated) {
  std::vector<Residual> residuals;
  residuals.reserve(40);
  for (int i = 0; i < 40; ++i) {
    residuals.push_back({std::to_string(i), std::log(0.505 + 0.025 * i)});
  }
  const RelativeInterval interval = fit_interval_model({}, residuals).uncalibrated;
  EXPECT_NEAR(interval.low, 0.53, 1e-9);
  EXPECT_NEAR(interval.high, 1.46, 1e-9);
}

TEST(FitIntervalModel, KeepsThePredictionInside) {
  const std::vector<Residual> residuals = {{"group", std::log(1.1)}, {"group", std::log(1.2)}};
  EXPECT_EQ(fit_interval_model({}, residuals).uncalibrated.low, 1.0);
}

}  // namespace
}  // namespace ptdp
