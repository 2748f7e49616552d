// Tests of the rules of thumb beside a search.
#include "planner/explain/rules_of_thumb.h"

#include <gtest/gtest.h>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

// SC21 table 1, whose rule this is: MP is the smallest model-parallel size that fits with full
// recomputation and the published microbatch.
TEST(RulesOfThumb, TableOneChoosesThePublishedDegrees) {
  struct Row {
    const char* model;
    std::int64_t gpus;
    int tp;
    int pp;
    int dp;
  };
  for (const Row& row : {Row{"1.7B", 32, 1, 1, 32}, Row{"3.6B", 64, 2, 1, 32},
                         Row{"530B", 2520, 8, 35, 9}, Row{"1T", 3072, 8, 64, 6}}) {
    const Scenario scenario = selene_2021(row.model);
    const std::vector<Baseline> baselines = rules_of_thumb(scenario, {.gpus = row.gpus});
    ASSERT_TRUE(baselines.front().choice.has_value()) << row.model;
    const ParallelConfig& config = baselines.front().choice->config;
    EXPECT_EQ(config.tp, row.tp) << row.model;
    EXPECT_EQ(config.pp, row.pp) << row.model;
    EXPECT_EQ(config.dp, row.dp) << row.model;
  }
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
