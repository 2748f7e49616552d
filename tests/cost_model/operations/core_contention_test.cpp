// Tests of ranks that share cores, and of factors for busy cores.
#include "cost_model/operations/core_contention.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

/// Returns nodes of four cores, measured with two and with all cores busy.
ClusterSpec host() {
  return {.gpus_per_node = 64,
          .cores_per_node = 4,
          .busy_cores = {{.cores = 2, .matmul = 1.2, .memory_bound = 1.4, .skew = 0.02},
                         {.cores = 4, .matmul = 1.6, .memory_bound = 3.0, .skew = 0.06}},
          .time_factors = {.matmul = 2.0, .attention = 3.0}};
}

TEST(ComputeFactors, AreAFitsTimesWhatBusyCoresCostOneAnother) {
  const ClusterSpec cluster = host();
  const ComputeFactors one = compute_factors({}, cluster);
  EXPECT_DOUBLE_EQ(one.matmul, 2.0);
  EXPECT_DOUBLE_EQ(one.attention, 3.0);
  EXPECT_DOUBLE_EQ(one.memory_bound, 1.0);

  const ComputeFactors two = compute_factors({.dp = 2}, cluster);
  EXPECT_DOUBLE_EQ(two.matmul, 2.4);
  EXPECT_DOUBLE_EQ(two.memory_bound, 1.4);
  EXPECT_DOUBLE_EQ(two.skew, 0.0) << "no group that waits several times a layer";
}

TEST(ComputeFactors, AreLinearBetweenMeasuredNumbersOfCoresAndNeverBeyondAll) {
  const ClusterSpec cluster = host();
  EXPECT_DOUBLE_EQ(compute_factors({.dp = 3}, cluster).memory_bound, 2.2);
  EXPECT_DOUBLE_EQ(compute_factors({.dp = 16}, cluster).memory_bound, 3.0);
  EXPECT_DOUBLE_EQ(compute_factors({.tp = 2, .dp = 2}, cluster).skew, 0.02);
  EXPECT_DOUBLE_EQ(compute_factors({.tp = 8}, cluster).skew, 0.06);
}

TEST(ComputeFactors, AreOneForClustersThatSayNothing) {
  const ComputeFactors factors = compute_factors({.tp = 8, .dp = 64}, {.gpus_per_node = 8});
  EXPECT_EQ(factors.matmul, 1.0);
  EXPECT_EQ(factors.optimizer, 1.0);
  EXPECT_EQ(factors.skew, 0.0);
}

// Eight ranks of 3 s each on four cores: 6 s of work for a core. What they take by themselves is
// 3 s without a bubble, 5 s with one of 2 s, and nothing is added to 7 s.
TEST(CoreSharing, IsWhatTheWorkOfACoreExceedsThePathBy) {
  const ClusterSpec cluster = host();
  const auto sharing = [&](const ParallelConfig& config, double path) {
    return core_contention_time(config, cluster, Seconds(3.0), Seconds(path)).value();
  };
  EXPECT_DOUBLE_EQ(sharing({.dp = 8}, 3.0), 3.0);
  EXPECT_DOUBLE_EQ(sharing({.pp = 8}, 5.0), 1.0);
  EXPECT_DOUBLE_EQ(sharing({.pp = 8}, 7.0), 0.0);
  EXPECT_DOUBLE_EQ(sharing({.dp = 4}, 3.0), 0.0) << "a core for each";
  EXPECT_DOUBLE_EQ(sharing({.dp = 128}, 3.0), 45.0) << "64 of them on each of two nodes";
}

// By hand, each factor of a fit is multiplied by that of busy cores; the optimizer is bound by
// memory.
TEST(ComputeFactors, HaveAFactorForEachKindOfWork) {
  const ClusterSpec cluster = {
      .gpus_per_node = 8,
      .cores_per_node = 8,
      .busy_cores = {{.cores = 3, .matmul = 2, .attention = 3, .memory_bound = 5, .optimizer = 7}},
      .time_factors = {.matmul = 11, .attention = 13, .memory_bound = 17, .communication = 99}};
  const ComputeFactors three = compute_factors({.dp = 3}, cluster);
  EXPECT_DOUBLE_EQ(three.matmul, 22);
  EXPECT_DOUBLE_EQ(three.attention, 39);
  EXPECT_DOUBLE_EQ(three.memory_bound, 85);
  EXPECT_DOUBLE_EQ(three.optimizer, 119);
  // Half-way from one core; and as the last beyond it.
  const ComputeFactors two = compute_factors({.dp = 2}, cluster);
  EXPECT_DOUBLE_EQ(two.attention, 26);
  EXPECT_DOUBLE_EQ(two.optimizer, 68);
  EXPECT_DOUBLE_EQ(compute_factors({.dp = 8}, cluster).optimizer, 119);
}

TEST(BusyCores, AreAsManyAsANodeHasRanksOrCores) {
  const ClusterSpec cluster = host();
  EXPECT_EQ(busy_cores({.tp = 3}, cluster), 3);
  EXPECT_EQ(busy_cores({.tp = 2, .pp = 3}, cluster), 4);
  EXPECT_EQ(ranks_on_node({.tp = 2, .pp = 3}, cluster), 6);
  EXPECT_EQ(ranks_on_node({.dp = 100}, cluster), 64);
  EXPECT_EQ(busy_cores({.tp = 3}, {.gpus_per_node = 8}), 1);
  EXPECT_FALSE(shares_cores({.dp = 4}, cluster));
  EXPECT_TRUE(shares_cores({.dp = 5}, cluster));
  EXPECT_FALSE(shares_cores({.dp = 5}, {.gpus_per_node = 4}));
}

}  // namespace
}  // namespace ptdp
