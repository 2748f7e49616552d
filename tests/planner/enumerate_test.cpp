#include "planner/enumerate.h"

#include <gmock/gmock.h>

#include <set>

#include "tests/cost_model/scenarios.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(EnumerateLayouts, LeaveFewerGpusIdleThanAReplicaNeeds) {
  const Scenario scenario = selene_2021("530B");
  for (const std::int64_t gpus : {1, 7, 64, 2560, 3079}) {
    for (const int tp : enumerate_tp(scenario, gpus, {})) {
      for (const ParallelConfig& layout : enumerate_layouts(scenario, gpus, {}, tp)) {
        const std::int64_t idle = gpus - layout.world_size();
        EXPECT_GE(idle, 0) << to_string(layout);
        EXPECT_LT(idle, layout.tp * layout.pp) << to_string(layout);
      }
    }
  }
}

// SC21 trained the 530B model with (8, 35, 9) on 2520 GPUs.
TEST(EnumerateLayouts, FindThePublishedOneWithFortyGpusToSpare) {
  const Scenario scenario = selene_2021("530B");
  std::set<int> replicas;
  for (const ParallelConfig& layout : enumerate_layouts(scenario, 2560, {}, 8)) {
    if (layout.pp == 35) {
      replicas.insert(layout.dp);
    }
  }
  EXPECT_THAT(replicas, ElementsAre(9));
}

TEST(EnumerateLayouts, TakeAPinnedNumberOfReplicasAsItIs) {
  const Scenario scenario = selene_2021("530B");
  const Pins pins{.pp = IntegerRanges(35), .dp = IntegerRanges(4)};
  const std::vector<ParallelConfig> layouts = enumerate_layouts(scenario, 2560, pins, 8);
  ASSERT_EQ(layouts.size(), 1U);
  EXPECT_EQ(layouts.front().dp, 4);
}

TEST(EnumerateTp, GoesAcrossNodesAndUpToTheHeads) {
  const Scenario scenario = selene_2021("1.7B");  // 24 heads, 8 GPUs per node
  EXPECT_EQ(enumerate_tp(scenario, 1000, {}).back(), 24);
  EXPECT_EQ(enumerate_tp(scenario, 5, {}).back(), 5);
  EXPECT_THAT(enumerate_tp(scenario, 1000, {.tp = IntegerRanges(48)}), ElementsAre(48));
  EXPECT_THAT(enumerate_tp(scenario, 4, {.tp = IntegerRanges(8)}), IsEmpty());
}

TEST(EnumerateVariants, AreWhatTheStackCanRun) {
  const ParallelConfig layout{.tp = 8, .pp = 4, .dp = 4};
  // 40 layers over 4 stages: vpp 1 to 10, times recomputation none and full.
  EXPECT_EQ(enumerate_variants(selene_2021("18B"), {}, layout).size(), 10U * 2);
  // and three kinds of recomputation, two of sequence parallelism, two ZeRO stages.
  EXPECT_EQ(
      enumerate_variants(shipped_scenario("18B", "selene-a100", "megatron-lm-2022"), {}, layout)
          .size(),
      10U * 3 * 2 * 2);
}

TEST(EnumerateVariants, DoNotShardOverOneReplicaNorSplitTheSequenceOverOneGpu) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022");
  for (const ParallelConfig& config : enumerate_variants(scenario, {}, {.tp = 1, .pp = 4})) {
    EXPECT_EQ(config.zero_stage, 0);
    EXPECT_FALSE(config.sequence_parallel);
  }
}

TEST(EnumerateVariants, KeepToThePins) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022");
  const Pins pins{.vpp = IntegerRanges(5),
                  .zero_stage = IntegerRanges(1),
                  .recompute = {Recompute::kFull},
                  .sequence_parallel = false};
  const std::vector<ParallelConfig> variants =
      enumerate_variants(scenario, pins, {.tp = 8, .pp = 4, .dp = 4});
  ASSERT_EQ(variants.size(), 1U);
  EXPECT_EQ(variants.front(), (ParallelConfig{.tp = 8,
                                              .pp = 4,
                                              .dp = 4,
                                              .vpp = 5,
                                              .schedule = Schedule::kInterleaved,
                                              .recompute = Recompute::kFull,
                                              .zero_stage = 1}));
}

TEST(EnumerateMicroBatchSizes, AreTheDivisorsInOrder) {
  EXPECT_THAT(enumerate_micro_batch_sizes(36, {}), ElementsAre(1, 2, 3, 4, 6, 9, 12, 18, 36));
  EXPECT_THAT(enumerate_micro_batch_sizes(1, {}), ElementsAre(1));
  EXPECT_THAT(enumerate_micro_batch_sizes(
                  36, {.micro_batch_size = IntegerRanges::parse("2:6", 1, 99, "b")}),
              ElementsAre(2, 3, 4, 6));
  // A single number is a wish to hear about, even where it does not divide.
  EXPECT_THAT(enumerate_micro_batch_sizes(36, {.micro_batch_size = IntegerRanges(5)}),
              ElementsAre(5));
}

}  // namespace
}  // namespace ptdp
