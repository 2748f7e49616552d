// Tests of what the slowest of several cards costs.
#include "cost_model/operations/slowest_card.h"

#include <gtest/gtest.h>

#include "cost_model/layer/transformer_layer.h"
#include "cost_model/operations/core_contention.h"
#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

// Teichroew, Tables of expected values of order statistics, 1956, and integrals for 1000 and 10000.
TEST(SlowestCard, LiesAsFarFromTheMeanAsTablesSay) {
  EXPECT_EQ(expected_largest_deviation(1), 0.0);
  EXPECT_NEAR(expected_largest_deviation(2), 0.5642, 0.03);
  EXPECT_NEAR(expected_largest_deviation(5), 1.1630, 0.03);
  EXPECT_NEAR(expected_largest_deviation(8), 1.4236, 0.03);
  EXPECT_NEAR(expected_largest_deviation(20), 1.8675, 0.03);
  EXPECT_NEAR(expected_largest_deviation(100), 2.5076, 0.03);
  EXPECT_NEAR(expected_largest_deviation(1000), 3.2414, 0.03);
  EXPECT_NEAR(expected_largest_deviation(10000), 3.8516, 0.03);
}

TEST(SlowestCard, CostsNothingAloneOrWhereNoSpreadIsKnown) {
  EXPECT_EQ(slowest_card_factor(1, 0.1), 1.0);
  EXPECT_EQ(slowest_card_factor(3072, 0.0), 1.0);
  EXPECT_NEAR(slowest_card_factor(8, 0.02), 1.0 + 0.02 * 1.4236, 0.001 + 0.02 * 0.03);
}

TEST(SlowestCard, SlowsProductsAndAttentionAlone) {
  ClusterSpec cluster{.gpus_per_node = 8};
  cluster.gpu.card_spread = 0.02;
  const ComputeFactors factors = compute_factors({.tp = 2, .pp = 2, .dp = 2}, cluster);
  EXPECT_NEAR(factors.matmul, 1.0 + 0.02 * 1.434, 0.001);
  EXPECT_EQ(factors.attention, factors.matmul);
  EXPECT_EQ(factors.memory_bound, 1.0);
  EXPECT_EQ(factors.optimizer, 1.0);
}

// The whole job waits, so that replicas and stages count as much as tensor parallelism does.
TEST(SlowestCard, IsThatOfTheWholeJob) {
  Scenario scenario = plain_scenario(small_dense_model());
  const auto forward = [&](const ParallelConfig& config) {
    return layer_costs(scenario, config).forward;
  };
  const PassTime alike = forward({.dp = 1});
  EXPECT_EQ(forward({.dp = 64}).total(), alike.total());
  scenario.cluster.gpu.card_spread = 0.02;
  EXPECT_EQ(forward({.dp = 1}).total(), alike.total());
  const double factor = 1.046;  // 1 + 0.02·Φ⁻¹(63.625/64.25), to 0.002
  EXPECT_NEAR(forward({.dp = 64}).matmul / alike.matmul, factor, 1e-12);
  EXPECT_NEAR(forward({.pp = 8, .dp = 8}).matmul / alike.matmul, factor, 1e-12);
  EXPECT_EQ(forward({.dp = 64}).memory_bound, alike.memory_bound);
}

}  // namespace
}  // namespace ptdp
