// Tests of the candidates that a search enumerates.
#include "planner/search/enumerate.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(EnumerateSplits, HaveRoomForOneReplica) {
  const Scenario scenario = selene_2021("530B");  // 105 layers
  EXPECT_EQ(enumerate_degrees(scenario, 10'000, {}, 8).size(), 105U);
  EXPECT_EQ(enumerate_degrees(scenario, 64, {}, 8).size(), 8U);
  EXPECT_EQ(enumerate_degrees(scenario, 64, {.pp = IntegerRanges(9)}, 8).size(), 0U);
}

std::vector<int> context_sizes_of(const Scenario& scenario, std::int64_t gpus,
                                  const SearchSpace& space) {
  std::vector<int> sizes;
  for (const Degrees& split : enumerate_degrees(scenario, gpus, space, 1)) {
    if (split.pp == 1) {
      sizes.push_back(split.cp);
    }
  }
  return sizes;
}

TEST(EnumerateSplits, ShareSequencesWhereTheStackDoes) {
  Scenario scenario = selene_2021("530B");
  scenario.job.model.seq_length = 12288;
  EXPECT_THAT(context_sizes_of(scenario, 100, {}), ElementsAre(1));
  EXPECT_THAT(context_sizes_of(scenario, 100, {.cp = IntegerRanges(3)}), ElementsAre(3));
  scenario.stack.can_run.context_parallel = true;
  EXPECT_THAT(context_sizes_of(scenario, 100, {}), ElementsAre(1, 2, 4));
  EXPECT_THAT(context_sizes_of(scenario, 3, {}), ElementsAre(1, 2));
  EXPECT_THAT(context_sizes_of(scenario, 100, {.cp = IntegerRanges::parse("2:4,32", 1, 99, "cp")}),
              ElementsAre(2, 3, 4, 32));
  scenario.job.model.seq_length = 2048;
  EXPECT_THAT(context_sizes_of(scenario, 100, {}), ElementsAre(1));
}

std::vector<int> replicas_of(const Scenario& scenario, std::int64_t gpus,
                             const SearchSpace& space) {
  std::vector<int> degrees;
  for (const Replicas& replicas : enumerate_replicas(scenario, gpus, space)) {
    degrees.push_back(replicas.dp);
  }
  return degrees;
}

// 2520 = 2^3·3^2·5·7. SC21 trained the 530B model with (8, 35, 9) on 2520 GPUs: 9 is the most that
// 2560 GPUs have room for.
TEST(EnumerateReplicas, AreTheDivisorsOfTheBatchThatThereIsRoomFor) {
  const Scenario scenario = selene_2021("530B");
  EXPECT_THAT(replicas_of(scenario, 2560 / (8 * 35), {}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9));
  EXPECT_THAT(replicas_of(scenario, 13, {}), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12));
}

TEST(EnumerateReplicas, TakeAPinnedNumberAsItIs) {
  const Scenario scenario = selene_2021("530B");
  EXPECT_THAT(replicas_of(scenario, 13, {.dp = IntegerRanges(11)}), ElementsAre(11));
  EXPECT_THAT(replicas_of(scenario, 13, {.dp = IntegerRanges(14)}), IsEmpty());
}

// A replica of 4 has 12/4 = 3 sequences.
TEST(EnumerateReplicas, HaveTheMicrobatchSizesThatDivideTheirBatch) {
  const std::vector<Replicas> replicas = enumerate_replicas(selene_2021("530B", 12), 4, {});
  ASSERT_EQ(replicas.size(), 4U);
  EXPECT_THAT(replicas.front().micro_batch_sizes, ElementsAre(1, 2, 3, 4, 6, 12));
  EXPECT_THAT(replicas.back().micro_batch_sizes, ElementsAre(1, 3));
}

// The whole batch of 36 goes to one replica.
TEST(EnumerateReplicas, TakeTheMicrobatchSizesThatArePinned) {
  const Scenario scenario = selene_2021("18B", 36);
  const auto sizes = [&](const IntegerRanges& pinned) {
    return enumerate_replicas(scenario, 1, {.micro_batch_size = pinned}).front().micro_batch_sizes;
  };
  EXPECT_THAT(sizes({}), ElementsAre(1, 2, 3, 4, 6, 9, 12, 18, 36));
  EXPECT_THAT(sizes(IntegerRanges::parse("2:6", 1, 99, "b")), ElementsAre(2, 3, 4, 6));
  // A single number is a wish to hear about, even where it does not divide.
  EXPECT_THAT(sizes(IntegerRanges(5)), ElementsAre(5));
}

TEST(IsCandidate, UsesNoMoreGpusThanThereAre) {
  const Scenario scenario = selene_2021("530B");
  EXPECT_TRUE(is_candidate(scenario, {.tp = 8, .pp = 35, .dp = 9}, 2520, {}));
  EXPECT_FALSE(is_candidate(scenario, {.tp = 8, .pp = 35, .dp = 9}, 2519, {}));
  EXPECT_TRUE(is_candidate(scenario, {.tp = 8, .pp = 35, .dp = 3, .cp = 3}, 2520, {}));
  EXPECT_FALSE(is_candidate(scenario, {.tp = 8, .pp = 35, .dp = 3, .cp = 4}, 2520, {}));
}

TEST(IsCandidate, HasSomethingToShardOverUnlessItMust) {
  Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022");
  EXPECT_FALSE(is_candidate(scenario, {.dp = 1, .zero_stage = 1}, 8, {}));
  EXPECT_TRUE(is_candidate(scenario, {.dp = 2, .zero_stage = 1}, 8, {}));
  EXPECT_TRUE(is_candidate(scenario, {.dp = 1, .cp = 2, .zero_stage = 1}, 8, {}));
  EXPECT_TRUE(
      is_candidate(scenario, {.dp = 1, .zero_stage = 1}, 8, {.zero_stage = IntegerRanges(1)}));
  scenario.stack.can_run.zero_stages = {1};
  EXPECT_TRUE(is_candidate(scenario, {.dp = 1, .zero_stage = 1}, 8, {}));
}

TEST(EnumerateTp, LeavesOneOutWhereSequenceParallelismIsAskedFor) {
  EXPECT_EQ(enumerate_tp(selene_2021("1.7B"), 8, {.sequence_parallel = true}).front(), 2);
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

// 126 layers over 16 stages: 7 chunks of one and two layers, or 8 with embedding and logits as
// chunks of their own, as Llama 3 405B was trained (arXiv:2407.21783 section 3.3.2).
TEST(EnumerateVariants, LeaveTheEndsOfTheModelChunksOfTheirOwn) {
  const Scenario scenario = shipped_scenario("llama-3.1-405b", "grand-teton-h100", "meta-llama3");
  int most = 0;
  for (const ParallelConfig& config : enumerate_variants(scenario, {}, {.tp = 8, .pp = 16})) {
    most = std::max(most, config.vpp);
  }
  EXPECT_EQ(most, 8);
}

TEST(EnumerateVariants, HaveTheOrdersOfRanksThatArePinnedWhereThereAreStages) {
  const Scenario scenario = shipped_scenario("18B", "dgx-h100", "megatron-core-2025");
  const SearchSpace both{.rank_orders = {RankOrder::kTpCpEpDpPp, RankOrder::kTpCpEpPpDp}};
  const std::size_t one = enumerate_variants(scenario, {}, {.tp = 2, .pp = 4}).size();
  EXPECT_EQ(enumerate_variants(scenario, both, {.tp = 2, .pp = 4}).size(), 2 * one);
  EXPECT_EQ(enumerate_variants(scenario, both, {.tp = 2}).size(),
            enumerate_variants(scenario, {}, {.tp = 2}).size());
}

TEST(EnumerateVariants, OffloadWhatIsPinnedAndElseNothing) {
  const Scenario scenario = shipped_scenario("18B", "dgx-h100", "megatron-core-2025");
  for (const ParallelConfig& config : enumerate_variants(scenario, {}, {.tp = 2})) {
    EXPECT_EQ(config.offload, Offload::kNone);
  }
  const SearchSpace space{.offload = {Offload::kOptimizer}};
  for (const ParallelConfig& config : enumerate_variants(scenario, space, {.tp = 2})) {
    EXPECT_EQ(config.offload, Offload::kOptimizer);
  }
  std::set<int> numbers;  // each eighth of 40 layers, and all but the last
  for (const ParallelConfig& config :
       enumerate_variants(scenario, {.offload = {Offload::kActivations}}, {.tp = 2})) {
    numbers.insert(config.offload_num_layers);
  }
  EXPECT_EQ(numbers, (std::set<int>{0, 5, 10, 15, 20, 25, 30, 35}));
  const SearchSpace layers{.offload = {Offload::kNone, Offload::kBoth}, .offload_num_layers = 7};
  for (const ParallelConfig& config : enumerate_variants(scenario, layers, {.tp = 2})) {
    EXPECT_EQ(config.offload_num_layers, config.offload == Offload::kBoth ? 7 : 0);
  }
}

// Modules are of selective recomputation, layers of full; who pins one of them wants that kind.
TEST(EnumerateVariants, RecomputeWhatIsPinned) {
  const Scenario scenario = shipped_scenario("18B", "dgx-h100", "megatron-core-2025");
  const RecomputeModules modules{RecomputeModule::kCoreAttention, RecomputeModule::kMlp};
  const SearchSpace both{.recompute_modules = modules, .recompute_num_layers = 2};
  for (const Recompute kind : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    SearchSpace space = both;
    space.recompute = {kind};
    for (const ParallelConfig& config : enumerate_variants(scenario, space, {.tp = 2, .pp = 4})) {
      EXPECT_EQ(config.recompute_modules,
                kind == Recompute::kSelective ? modules : kCoreAttentionAlone);
      EXPECT_EQ(config.recompute_num_layers, kind == Recompute::kFull ? 2 : 0);
    }
  }
  for (const auto& [space, kind] :
       {std::pair{SearchSpace{.recompute_modules = modules}, Recompute::kSelective},
        std::pair{SearchSpace{.recompute_num_layers = 2}, Recompute::kFull}}) {
    const auto variants = enumerate_variants(scenario, space, {.tp = 2, .pp = 4});
    EXPECT_EQ(variants.size(), enumerate_variants(scenario, {}, {.tp = 2, .pp = 4}).size() / 3);
    EXPECT_EQ(variants.front().recompute, kind);
  }
  // torchtitan does not recompute attention by itself.
  const Scenario titan = shipped_scenario("18B", "dgx-h100", "torchtitan-2024");
  EXPECT_EQ(enumerate_variants(titan, {.recompute = {Recompute::kSelective}}, {.tp = 2})
                .front()
                .recompute_modules,
            RecomputeModules{RecomputeModule::kEverySecondProduct});
}

TEST(EnumerateVariants, DoNotSplitTheSequenceOverOneGpu) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022");
  for (const ParallelConfig& config : enumerate_variants(scenario, {}, {.tp = 1, .pp = 4})) {
    EXPECT_FALSE(config.sequence_parallel);
  }
}

TEST(EnumerateVariants, KeepToThePins) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022");
  const SearchSpace space{.vpp = IntegerRanges(5),
                          .zero_stage = IntegerRanges(1),
                          .recompute = {Recompute::kFull},
                          .sequence_parallel = false};
  const std::vector<ParallelConfig> variants =
      enumerate_variants(scenario, space, {.tp = 8, .pp = 4, .dp = 4});
  ASSERT_EQ(variants.size(), 1U);
  EXPECT_EQ(variants.front(), (ParallelConfig{.tp = 8,
                                              .pp = 4,
                                              .dp = 4,
                                              .vpp = 5,
                                              .schedule = ScheduleKind::kInterleaved,
                                              .recompute = Recompute::kFull,
                                              .zero_stage = 1}));
}

}  // namespace
}  // namespace ptdp
