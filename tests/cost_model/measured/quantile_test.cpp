// Tests of quantiles, with and without weights.
#include "cost_model/measured/quantile.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

// By hand for 10, 20, 30, 40: q lies at 3q steps behind the first.
TEST(Quantile, IsInterpolatedBetweenTheNearestTwo) {
  const std::vector<double> values = {40.0, 10.0, 30.0, 20.0};
  EXPECT_DOUBLE_EQ(quantile(values, 0.0), 10.0);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 25.0);
  EXPECT_DOUBLE_EQ(quantile(values, 0.9), 37.0);
  EXPECT_DOUBLE_EQ(quantile(values, 1.0), 40.0);
}

TEST(Quantile, OfOneValueIsThatValue) {
  EXPECT_DOUBLE_EQ(quantile({7.0}, 0.9), 7.0);
}

TEST(Median, IsTheMiddleOneOrTheMeanOfTheMiddleTwo) {
  EXPECT_DOUBLE_EQ(median({3.0, 1.0, 2.0}), 2.0);
  EXPECT_DOUBLE_EQ(median({4.0, 1.0, 2.0, 3.0}), 2.5);
}

// By hand: weights 1, 1, 2 of 4 in all; up to the values 1, 2, 3 they are 1/4, 1/2, 1.
TEST(WeightedQuantile, IsTheValueAtWhichTheShareIsReached) {
  const std::vector<WeightedValue> values = {{3.0, 2.0}, {1.0, 1.0}, {2.0, 1.0}};
  EXPECT_DOUBLE_EQ(weighted_quantile(values, 0.2), 1.0);
  EXPECT_DOUBLE_EQ(weighted_quantile(values, 0.5), 2.0);
  EXPECT_DOUBLE_EQ(weighted_quantile(values, 0.51), 3.0);
  EXPECT_DOUBLE_EQ(weighted_quantile(values, 1.0), 3.0);
}

}  // namespace
}  // namespace ptdp
