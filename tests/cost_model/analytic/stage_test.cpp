#include "cost_model/analytic/stage.h"

#include <gtest/gtest.h>

#include "tests/cost_model/scenarios.h"

namespace ptdp {
namespace {

// Megatron-LM: 51200 is a multiple of 128·8, not of 128·32; GPT-2's 50257 becomes 50304.
TEST(PaddedVocabSize, IsAMultipleOf128PerTensorParallelRank) {
  EXPECT_EQ(padded_vocab_size(find_model("1T").config, 8), 51200);
  EXPECT_EQ(padded_vocab_size(find_model("1T").config, 32), 53248);
  EXPECT_EQ(padded_vocab_size(find_model("gpt2-124m").config, 1), 50304);
}

TEST(StageCosts, OfOneStageHoldEverything) {
  const Scenario scenario = selene_2021("1.7B");
  const ParallelConfig config{.dp = 32, .micro_batch_size = 16};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const PipelineCosts pipeline = pipeline_costs(scenario, config, costs);
  EXPECT_NEAR(pipeline.slowest.total().value(), pipeline.mean.value(), 1e-12);
  EXPECT_NEAR(pipeline.mean.value(),
              (24.0 * (costs.layers[0].forward.total() + costs.layers[0].backward.total()) +
               costs.embedding.total() + costs.logits.total() + scenario.stack.microbatch_overhead)
                  .value(),
              1e-9);
}

TEST(StageCosts, AreHeaviestOnTheLastStage) {
  const Scenario scenario = selene_2021("145B");
  const ParallelConfig config{.tp = 8, .pp = 8, .dp = 24, .recompute = Recompute::kFull};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const PipelineCosts pipeline = pipeline_costs(scenario, config, costs);
  const Seconds middle = stage_costs(scenario, config, costs, 3).total();
  EXPECT_EQ(pipeline.slowest.total(), stage_costs(scenario, config, costs, 7).total());
  EXPECT_NEAR((pipeline.slowest.total() - middle).value(), costs.logits.total().value(), 1e-12);
  EXPECT_LT(pipeline.mean, pipeline.slowest.total());
  EXPECT_GT(pipeline.mean, middle);
}

// Embedding and head each in a layer's slot: 30 layers over 8 stages of 4 slots.
TEST(StageCosts, OfAnUnevenPipelineFollowTheLayersOfEachStage) {
  Scenario scenario = selene_2021("145B");
  scenario.job.model.num_layers = 30;
  ParallelConfig config{.tp = 8, .pp = 8, .layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 3}};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const Seconds layer = costs.layers[0].forward.total() + costs.layers[0].backward.total();
  const Seconds overhead = scenario.stack.microbatch_overhead;
  const auto total = [&](int stage) {
    return stage_costs(scenario, config, costs, stage).total().value();
  };
  EXPECT_NEAR(total(0), (3.0 * layer + costs.embedding.total() + overhead).value(), 1e-12);
  EXPECT_NEAR(total(1), (4.0 * layer + overhead).value(), 1e-12);
  EXPECT_NEAR(total(7), (3.0 * layer + costs.logits.total() + overhead).value(), 1e-12);
  EXPECT_EQ(pipeline_costs(scenario, config, costs).slowest.total().value(), total(1));

  // Two chunks per stage: stage r holds virtual stages r and r + 4.
  config = {.tp = 8, .pp = 4, .vpp = 2, .layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 3}};
  EXPECT_EQ(ptdp::total(layers_of_stage(scenario.job.model, config, 0)), 7.0);
  EXPECT_EQ(ptdp::total(layers_of_stage(scenario.job.model, config, 1)), 8.0);
  EXPECT_EQ(ptdp::total(layers_of_stage(scenario.job.model, config, 3)), 7.0);
}

TEST(StageCosts, PayTheOverheadOfAMicrobatchForEachChunk) {
  const Scenario scenario = selene_2021("145B");
  const auto overhead = [&](int vpp) {
    const ParallelConfig config{.tp = 8, .pp = 8, .dp = 24, .vpp = vpp};
    return stage_costs(scenario, config, microbatch_costs(scenario, config), 0).overhead;
  };
  EXPECT_EQ(overhead(1), scenario.stack.microbatch_overhead);
  EXPECT_EQ(overhead(5), 5.0 * scenario.stack.microbatch_overhead);
}

// By hand: the tied embedding of 51200 rows is used twice; 6 bytes per weight at 0.7 · 2039 GB/s,
// plus that of 24 layers of 12h².
TEST(StageCosts, AccumulateTheGradientsOfBothUsesOfTheEmbedding) {
  const Scenario scenario = selene_2021("1.7B");
  const StageCosts stage = stage_costs(scenario, {}, microbatch_costs(scenario, {}), 0);
  const double weights = 2.0 * 51200 * 2304 + 24.0 * 12 * 2304 * 2304;
  EXPECT_NEAR(stage.gradient_accumulation.value(), weights * 6 / (0.7 * 2039e9), 1e-9);
}

// By hand: 2048 tokens of 51200 logits, one byte of traffic each more, at 0.7 · 2039 GB/s.
TEST(MicrobatchCosts, MoveTheLogitsAsOftenAsTheStackDoes) {
  Scenario scenario = selene_2021("1.7B");
  const Seconds before = microbatch_costs(scenario, {}).logits.memory_bound;
  scenario.stack.loss_traffic += 1.0;
  const Seconds after = microbatch_costs(scenario, {}).logits.memory_bound;
  EXPECT_NEAR((after - before).value(), 2048.0 * 51200 / (0.7 * 2039e9), 1e-12);
}

}  // namespace
}  // namespace ptdp
