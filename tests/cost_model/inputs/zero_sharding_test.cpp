#include "cost_model/inputs/parallel_config.h"
// Tests of what each ZeRO stage shards and how it reduces gradients.

#include <gtest/gtest.h>

namespace ptdp {
namespace {

// Rajbhandari et al. (arXiv:1910.02054) section 5: optimizer states, gradients too, weights too;
// with a pipeline none but the first.
TEST(ZeroSharding, ShardsMoreFromStageToStage) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int pp : {1, 2}) {
      const ParallelConfig config = {.pp = pp, .dp = 8, .zero_stage = stage};
      EXPECT_EQ(shards_optimizer(config), stage >= 1) << stage << ' ' << pp;
      EXPECT_EQ(shards_gradients(config), stage >= 2 && pp == 1) << stage << ' ' << pp;
      EXPECT_EQ(shards_weights(config), stage == 3 && pp == 1) << stage << ' ' << pp;
      EXPECT_EQ(gathers_again(config), stage == 3 && pp == 1) << stage << ' ' << pp;
      ParallelConfig keeping = config;
      keeping.reshard_after_forward = false;
      EXPECT_FALSE(gathers_again(keeping)) << stage << ' ' << pp;
    }
  }
}

// By hand: of 8 · 2 ranks in two replicas of the shards each adds up an eighth.
TEST(ZeroSharding, AddsUpARanksShardOfGradients) {
  EXPECT_EQ(share_accumulated({.dp = 8, .cp = 2, .zero_stage = 1, .dp_replicate = 2}), 1.0);
  EXPECT_EQ(share_accumulated({.dp = 8, .cp = 2, .zero_stage = 2}), 1.0 / 16.0);
  EXPECT_EQ(share_accumulated({.dp = 8, .cp = 2, .zero_stage = 2, .dp_replicate = 2}), 1.0 / 8.0);
  EXPECT_EQ(share_accumulated({.pp = 2, .dp = 8, .zero_stage = 3}), 1.0);
}

// A chunk is done before the next where its microbatches are in a row: all of them in looped-bfs,
// one group of at most pp where chunks interleave.
TEST(ZeroSharding, ReducesChunkByChunkWhereOneIsDoneBeforeTheNext) {
  const ParallelConfig usual = {
      .pp = 4, .vpp = 3, .schedule = ScheduleKind::kInterleaved, .zero_stage = 2};
  EXPECT_TRUE(may_reduce_by_chunk(usual));
  EXPECT_TRUE(reduces_by_chunk(usual, 4));
  EXPECT_FALSE(reduces_by_chunk(usual, 5));
  ParallelConfig config = usual;
  config.schedule = ScheduleKind::kLoopedBfs;
  EXPECT_TRUE(reduces_by_chunk(config, 64));
  config.schedule = ScheduleKind::kOneFOneB;
  EXPECT_FALSE(may_reduce_by_chunk(config));
  config = usual;
  config.vpp = 2;
  EXPECT_FALSE(may_reduce_by_chunk(config));
  EXPECT_FALSE(reduces_by_chunk(config, 1));
  config = usual;
  config.pp = 1;
  EXPECT_FALSE(may_reduce_by_chunk(config));
  config = usual;
  config.zero_stage = 1;
  EXPECT_FALSE(may_reduce_by_chunk(config));
}

}  // namespace
}  // namespace ptdp
