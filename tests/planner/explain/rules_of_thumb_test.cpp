// Tests of the rules of thumb beside a search.
#include "planner/explain/rules_of_thumb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cost_model/measured/measured_run.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/published_runs.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

// The ten rows of SC21 table 1, whose rule this is, are the oracle. All ten published (t, p, d)
// come out; of the microbatch, which the rule leaves to the search, eight of ten.
TEST(RulesOfThumb, TableOneChoosesThePublishedDegreesOfAllTenRows) {
  std::vector<std::string> reproduced;
  std::vector<std::string> other_microbatches;
  for (const MeasuredRun& run : read_published_runs().runs) {
    if (run.group != "sc21-t1") {
      continue;
    }
    const Baseline rule =
        rules_of_thumb(scenario_of(run), {.gpus = run.config.world_size()}).front();
    ASSERT_TRUE(rule.choice.has_value()) << run.id;
    const ParallelConfig& config = rule.choice->config;
    EXPECT_EQ(config.recompute, Recompute::kFull) << run.id;
    EXPECT_EQ(config.tp, run.config.tp) << run.id;
    EXPECT_EQ(config.pp, run.config.pp) << run.id;
    EXPECT_EQ(config.dp, run.config.dp) << run.id;
    if (config.tp == run.config.tp && config.pp == run.config.pp && config.dp == run.config.dp) {
      reproduced.push_back(run.id);
    }
    if (config.micro_batch_size != run.config.micro_batch_size) {
      other_microbatches.push_back(run.id);
    }
  }
  EXPECT_THAT(reproduced, SizeIs(10));
  EXPECT_THAT(other_microbatches, UnorderedElementsAre("sc21-t1-18B", "sc21-t1-145B"));
}

// By hand: 76B on 1024 GPUs fits with three stages of eight GPUs, but 24 does not divide 1024.
TEST(RulesOfThumb, UseAllGpusWhereASplitThatFitsDoes) {
  const Scenario scenario = selene_2021("76B");
  for (const Baseline& baseline : rules_of_thumb(scenario, {.gpus = 1024})) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(baseline.choice->config.tp, 8) << baseline.name;
    EXPECT_EQ(baseline.choice->config.pp, 4) << baseline.name;
    EXPECT_EQ(baseline.choice->config.world_size(), 1024) << baseline.name;
  }
  const SearchSpace three_stages{.pp = IntegerRanges(3)};
  for (const Baseline& baseline : rules_of_thumb(scenario, {.gpus = 1024, .space = three_stages})) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(baseline.choice->config.world_size(), 24 * 32) << baseline.name;  // dp divides 1792
  }
}

// Neither 4, 8 nor 16 stages have equal numbers of 126 layers, but no other numbers of stages
// divide 16384 GPUs. Llama 3 was trained on 16 stages of them (arXiv:2407.21783, section 3.3).
TEST(RulesOfThumb, UseAllGpusOnUnequalStagesWhereTheStackRunsThem) {
  Scenario scenario = shipped_scenario("llama-3.1-405b", "dgx-h100", "megatron-core-2025", 2048);
  ASSERT_TRUE(scenario.stack.can_run.uneven_layers);
  for (const Baseline& baseline : rules_of_thumb(scenario, {.gpus = 16384})) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(baseline.choice->config.world_size(), 16384) << baseline.name;
    EXPECT_EQ(baseline.choice->config.tp, 8) << baseline.name;
    EXPECT_NE(126 % baseline.choice->config.pp, 0) << baseline.name;
    EXPECT_LE(baseline.choice->config.zero_stage, 1) << baseline.name;
  }
  scenario.stack.can_run.uneven_layers = false;
  for (const Baseline& baseline : rules_of_thumb(scenario, {.gpus = 16384})) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(126 % baseline.choice->config.pp, 0) << baseline.name;
  }
}

// SC21 and NVIDIA's guide divide the model where it does not fit; only a stack that does nothing
// else shards weights in place of that.
TEST(RulesOfThumb, ShardWeightsOnlyWhereTheStackDoesNothingElse) {
  const Scenario shards = shipped_scenario("llama-2-7b", "dgx-h100", "megatron-core-2025", 64);
  ASSERT_THAT(shards.stack.can_run.zero_stages, testing::Contains(3));
  for (const Baseline& baseline : rules_of_thumb(shards, {.gpus = 64})) {
    EXPECT_LE(baseline.choice.value().config.zero_stage, 1) << baseline.name;
  }
  const SearchSpace pinned{.zero_stage = IntegerRanges(3)};
  for (const Baseline& baseline : rules_of_thumb(shards, {.gpus = 64, .space = pinned})) {
    EXPECT_EQ(baseline.choice.value().config.zero_stage, 3) << baseline.name;
  }
  const Scenario only = shipped_scenario("llama-2-7b", "dgx-h100", "torchtitan-2024", 64);
  ASSERT_THAT(only.stack.can_run.zero_stages, ElementsAre(3));
  for (const Baseline& baseline : rules_of_thumb(only, {.gpus = 64})) {
    EXPECT_EQ(baseline.choice.value().config.zero_stage, 3) << baseline.name;
  }
}

// 13 GPUs and a batch of 512: a 1.7B model has 24 layers, 24 heads; no product of divisors is 13.
TEST(RulesOfThumb, LeaveGpusIdleWhereTheBatchAllowsNothingElse) {
  const std::vector<Baseline> baselines = rules_of_thumb(selene_2021("1.7B"), {.gpus = 13});
  for (const Baseline& baseline : baselines) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(baseline.choice->config.world_size(), 8) << baseline.name;
  }
  EXPECT_EQ(baselines[0].choice->config.dp, 8);
  EXPECT_EQ(baselines[2].choice->config.tp, 8);
}

// SC21 recomputes in full; NVIDIA's documentation takes selective recomputation first, and full
// where that does not fit. 3.6B fits on one GPU of 80 GiB with ZeRO-1; 1T needs full recomputation
// on 64 stages of eight GPUs of 2021 (SC21 section 5.1).
TEST(RulesOfThumb, RecomputeAsTheirSourcesSay) {
  const auto kinds = [](const Scenario& scenario, const SearchOptions& options) {
    std::vector<Recompute> result;
    for (const Baseline& baseline : rules_of_thumb(scenario, options)) {
      result.push_back(baseline.choice.value().config.recompute);
    }
    return result;
  };
  const Scenario later = shipped_scenario("3.6B", "selene-a100", "megatron-lm-2022");
  EXPECT_THAT(kinds(later, {.gpus = 64}),
              ElementsAre(Recompute::kFull, Recompute::kSelective, Recompute::kFull));
  EXPECT_THAT(kinds(selene_2021("3.6B"), {.gpus = 64}),
              ElementsAre(Recompute::kFull, Recompute::kNone, Recompute::kFull));
  EXPECT_THAT(kinds(selene_2021("1T"), {.gpus = 3072}), Each(Recompute::kFull));
  for (const Recompute pinned : {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
    EXPECT_THAT(kinds(later, {.gpus = 64, .space = {.recompute = {pinned}}}), Each(pinned));
  }
  // Each rule takes its own of two kinds that are pinned.
  EXPECT_THAT(kinds(later, {.gpus = 64,
                            .space = {.recompute = {Recompute::kNone, Recompute::kSelective}}})[1],
              Recompute::kSelective);
}

TEST(RulesOfThumb, NeverBeatTheSearch) {
  for (const char* stack : {"megatron-lm-2021", "megatron-lm-2022"}) {
    const Scenario scenario = shipped_scenario("76B", "selene-a100", stack);
    const SearchResult result = search(scenario, {.gpus = 1024});
    for (const Baseline& baseline : rules_of_thumb(scenario, {.gpus = 1024})) {
      ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
      EXPECT_GE(baseline.choice->time, result.best.front().time) << baseline.name;
    }
  }
}

TEST(RulesOfThumb, ShardTheOptimizerBeforeTheyDivideTheModel) {
  const Scenario scenario = shipped_scenario("3.6B", "selene-a100", "megatron-lm-2022");
  const std::vector<Baseline> baselines = rules_of_thumb(scenario, {.gpus = 64});
  ASSERT_TRUE(baselines[1].choice.has_value());
  EXPECT_EQ(baselines[1].choice->config.zero_stage, 1);
  EXPECT_EQ(baselines[1].choice->config.tp, 1);
}

TEST(RulesOfThumb, SayWhenNothingThatFollowsThemFits) {
  const Scenario scenario = selene_2021("1T");
  for (const Baseline& baseline : rules_of_thumb(scenario, {.gpus = 8})) {
    EXPECT_FALSE(baseline.choice.has_value()) << baseline.name;
  }
}

// No rule knows what shares sequences; pinned, it takes its part of the GPUs.
TEST(RulesOfThumb, ShareSequencesOnlyWhereThatIsAskedFor) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2024", 64);
  for (const Baseline& baseline : rules_of_thumb(scenario, {.gpus = 64})) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(baseline.choice->config.cp, 1) << baseline.name;
  }
  for (const Baseline& baseline :
       rules_of_thumb(scenario, {.gpus = 64, .space = {.cp = IntegerRanges(4)}})) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(baseline.choice->config.cp, 4) << baseline.name;
    EXPECT_EQ(baseline.choice->config.world_size(), 64) << baseline.name;
  }
}

TEST(RulesOfThumb, KeepToThePins) {
  const Scenario scenario = selene_2021("7.5B");
  for (const Baseline& baseline :
       rules_of_thumb(scenario, {.gpus = 128, .space = {.tp = IntegerRanges(8)}})) {
    ASSERT_TRUE(baseline.choice.has_value()) << baseline.name;
    EXPECT_EQ(baseline.choice->config.tp, 8) << baseline.name;
  }
}

// 1.7B fits on one GPU of 64; the last rule takes the node's eight all the same, of 36 heads four.
TEST(RulesOfThumb, BeginWithOneGpuOrWithTheWholeNode) {
  Scenario scenario = selene_2021("1.7B", 512);
  const auto degrees = [&](std::size_t rule) {
    const std::vector<Baseline> baselines = rules_of_thumb(scenario, {.gpus = 64});
    const ParallelConfig& config = baselines.at(rule).choice->config;
    return std::vector<int>{config.tp, config.pp, config.dp};
  };
  EXPECT_EQ(degrees(0), (std::vector<int>{1, 1, 64}));
  EXPECT_EQ(degrees(1), (std::vector<int>{1, 1, 64}));
  EXPECT_EQ(degrees(2), (std::vector<int>{8, 1, 8}));
  scenario.job.model.num_attention_heads = scenario.job.model.num_query_groups = 36;
  EXPECT_EQ(degrees(2), (std::vector<int>{4, 1, 16}));
  const std::vector<Baseline> baselines = rules_of_thumb(scenario, {.gpus = 64});
  ASSERT_EQ(baselines.size(), 3U);
  EXPECT_EQ(baselines[0].name, "SC21 table 1");
  EXPECT_EQ(baselines[1].name, "don't over-parallelize");
  EXPECT_EQ(baselines[2].name, "TP in the node, PP until it fits, then DP");
}

// The second rule shards the optimizer, and sequences wherever it splits layers, unless told not
// to.
TEST(RulesOfThumb, SplitSequencesWithTheLayersUnlessThatIsPinned) {
  const Scenario scenario = shipped_scenario("76B", "selene-a100", "megatron-lm-2022");
  const auto second = [&](const SearchSpace& space) {
    return rules_of_thumb(scenario, {.gpus = 1024, .space = space}).at(1).choice->config;
  };
  const ParallelConfig free = second({});
  EXPECT_GT(free.tp, 1);
  EXPECT_TRUE(free.sequence_parallel);
  EXPECT_EQ(free.zero_stage, 1);
  EXPECT_FALSE(second({.sequence_parallel = false}).sequence_parallel);
  EXPECT_EQ(second({.zero_stage = IntegerRanges(0)}).zero_stage, 0);
}

}  // namespace
}  // namespace ptdp
