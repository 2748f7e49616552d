// Tests of prediction intervals.
#include "cost_model/measured/interval.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace ptdp {
namespace {

// Student's 95 % quantiles from a table (Abramowitz and Stegun, 26.10): 2.132 with 4 degrees of
// freedom, 1.812 with 10, 1.645 with infinitely many.
TEST(IntervalOf, IsStudentsQuantileTimesTheDeviation) {
  EXPECT_NEAR(std::log(interval_of(0.01, 4.0).high), 0.2132, 5e-5);
  EXPECT_NEAR(std::log(interval_of(0.01, 10.0).high), 0.1812, 5e-5);
  EXPECT_NEAR(std::log(interval_of(0.04, 1e6).low), -0.3290, 5e-5);
}

// By hand: of 40 groups of a row each, from 0.505 to 1.480 in steps of 0.025, 7 % may lie outside:
// 1.4 rows on each side, so that the second and the 39th are the ends, 0.53 and 1.455, rounded
// outwards.
TEST(FitUncalibratedInterval, TakesThePercentiles) {
  std::vector<Residual> residuals;
  residuals.reserve(40);
  for (int i = 0; i < 40; ++i) {
    residuals.push_back({std::to_string(i), std::log(0.505 + 0.025 * i)});
  }
  const RelativeInterval interval = fit_uncalibrated_interval(residuals);
  EXPECT_NEAR(interval.low, 0.53, 1e-9);
  EXPECT_NEAR(interval.high, 1.46, 1e-9);
}

TEST(FitUncalibratedInterval, KeepsThePredictionInside) {
  const std::vector<Residual> residuals = {{"group", std::log(1.1)}, {"group", std::log(1.2)}};
  EXPECT_EQ(fit_uncalibrated_interval(residuals).low, 1.0);
}

// One group has 95 rows that are not off at all, the other 5 that are 20 % off: half of the weight.
TEST(FitUncalibratedInterval, CountsAGroupOnceHoweverManyRowsItHas) {
  std::vector<Residual> residuals(95, {"many", 0.0});
  residuals.resize(100, {"few", std::log(1.2)});
  EXPECT_NEAR(fit_uncalibrated_interval(residuals).high, 1.2, 1e-9);
}

}  // namespace
}  // namespace ptdp
