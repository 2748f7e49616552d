// Tests of the costs of a stage and of a microbatch.
#include "cost_model/pipeline_rank/rank_costs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/network/collectives.h"
#include "tests/cost_model/plain_scenario.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

// Megatron-LM: 51200 is a multiple of 128·8, not of 128·32; GPT-2's 50257 becomes 50304.
TEST(PaddedVocabSize, IsAMultipleOf128PerTensorParallelRank) {
  EXPECT_EQ(padded_vocab_size(find_model("1T").config, 8), 51200);
  EXPECT_EQ(padded_vocab_size(find_model("1T").config, 32), 53248);
  EXPECT_EQ(padded_vocab_size(find_model("gpt2-124m").config, 1), 50304);
}

TEST(RankCosts, OfOneStageHoldEverything) {
  const Scenario scenario = selene_2021("1.7B");
  const ParallelConfig config{.dp = 32, .micro_batch_size = 16};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const PipelineCosts pipeline = pipeline_costs({scenario, config, &costs});
  EXPECT_NEAR(pipeline.slowest.total().value(), pipeline.mean.value(), 1e-12);
  EXPECT_NEAR(pipeline.mean.value(),
              (24.0 * (costs.layers[0].forward.total() + costs.layers[0].backward.total()) +
               costs.embedding.total() + costs.logits.total() + scenario.stack.microbatch_overhead)
                  .value(),
              1e-9);
}

TEST(RankCosts, AreHeaviestOnTheLastStage) {
  const Scenario scenario = selene_2021("145B");
  const ParallelConfig config{.tp = 8, .pp = 8, .dp = 24, .recompute = Recompute::kFull};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const PipelineCosts pipeline = pipeline_costs({scenario, config, &costs});
  const Seconds middle = rank_costs({scenario, config, &costs}, 3).total();
  EXPECT_EQ(pipeline.slowest.total(), rank_costs({scenario, config, &costs}, 7).total());
  EXPECT_NEAR((pipeline.slowest.total() - middle).value(), costs.logits.total().value(), 1e-12);
  EXPECT_LT(pipeline.mean, pipeline.slowest.total());
  EXPECT_GT(pipeline.mean, middle);
}

// Embedding and head each in a layer's slot: 30 layers over 8 stages of 4 slots.
TEST(RankCosts, OfAnUnevenPipelineFollowTheLayersOfEachStage) {
  Scenario scenario = selene_2021("145B");
  scenario.job.model.num_layers = 30;
  ParallelConfig config{.tp = 8, .pp = 8, .layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 3}};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const Seconds layer = costs.layers[0].forward.total() + costs.layers[0].backward.total();
  const Seconds overhead = scenario.stack.microbatch_overhead;
  const auto total = [&](int rank) {
    return rank_costs({scenario, config, &costs}, rank).total().value();
  };
  EXPECT_NEAR(total(0), (3.0 * layer + costs.embedding.total() + overhead).value(), 1e-12);
  EXPECT_NEAR(total(1), (4.0 * layer + overhead).value(), 1e-12);
  EXPECT_NEAR(total(7), (3.0 * layer + costs.logits.total() + overhead).value(), 1e-12);
  EXPECT_EQ(pipeline_costs({scenario, config, &costs}).slowest.total().value(), total(1));

  // Two chunks per stage: stage r holds virtual stages r and r + 4.
  config = {.tp = 8, .pp = 4, .vpp = 2, .layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 3}};
  EXPECT_EQ(ptdp::total(layers_of_rank(scenario.job.model, config, 0)), 7.0);
  EXPECT_EQ(ptdp::total(layers_of_rank(scenario.job.model, config, 1)), 8.0);
  EXPECT_EQ(ptdp::total(layers_of_rank(scenario.job.model, config, 3)), 7.0);
}

TEST(RankCosts, PayTheOverheadOfAMicrobatchForEachChunk) {
  const Scenario scenario = selene_2021("145B");
  const auto overhead = [&](int vpp) {
    const ParallelConfig config{.tp = 8, .pp = 8, .dp = 24, .vpp = vpp};
    return rank_costs({scenario, config}, 0).overhead;
  };
  EXPECT_EQ(overhead(1), scenario.stack.microbatch_overhead);
  EXPECT_EQ(overhead(5), 5.0 * scenario.stack.microbatch_overhead);
}

// By hand: the tied embedding of 51200 rows is used twice; 6 bytes per weight at 0.7 · 2039 GB/s,
// plus that of 24 layers of 12h².
TEST(RankCosts, AccumulateTheGradientsOfBothUsesOfTheEmbedding) {
  const Scenario scenario = selene_2021("1.7B");
  const RankCosts rank = rank_costs({scenario, {}}, 0);
  const double weights = 2.0 * 51200 * 2304 + 24.0 * 12 * 2304 * 2304;
  EXPECT_NEAR(rank.gradient_accumulation.value(), weights * 6 / (0.7 * 2039e9), 1e-9);
}

// By hand: 2048 tokens of 51200 logits, one byte of traffic each more, at 0.7 · 2039 GB/s.
TEST(MicrobatchCosts, MoveTheLogitsAsOftenAsTheStackDoes) {
  Scenario scenario = selene_2021("1.7B");
  const Seconds before = microbatch_costs(scenario, {}).logits.memory_bound;
  scenario.stack.loss_traffic += 1.0;
  const Seconds after = microbatch_costs(scenario, {}).logits.memory_bound;
  EXPECT_NEAR((after - before).value(), 2048.0 * 51200 / (0.7 * 2039e9), 1e-12);
}

// By hand: two ranks, 512 tokens of 64 features in two bytes, of which each rank has half where the
// sequence is split. Each also has half of 1024 rows of the table and of the logits. The embedding
// has eight passes over the activations and one over the table. The logits have 52 bytes a logit
// and seven passes over the norm, of which 38 and two are forward. A reduce-scatter follows the
// embedding, an all-gather comes before the logits, and the reverse backward.
TEST(MicrobatchCosts, HaveTheEndsOfTheModelPassByPass) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.stack.loss_traffic = 52.0;
  const ParallelConfig config{.tp = 2, .micro_batch_size = 2, .sequence_parallel = true};
  const GroupPlacement pair = place_group(RankGrid(config), Dimension::kTensor, scenario.cluster);
  const double activations = 2.0 * 512 * 64;
  const double table = 512.0 * 64;
  const double logits = 512.0 * 512;
  const double product = 2.0 * 512 * 512 * 64 / kPlainFlops;
  const double gather = all_gather_time(Bytes(activations), pair, scenario.cluster).value();
  const double scatter = reduce_scatter_time(Bytes(activations), pair, scenario.cluster).value();
  ASSERT_GT(gather, 0.0);
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const auto expect = [](Seconds time, double expected) {
    EXPECT_NEAR(time.value(), expected, 1e-9 * expected);
  };
  expect(costs.embedding.memory_bound, (8.0 * activations + 2.0 * table) / kPlainBandwidth);
  expect(costs.embedding.tensor_parallel, gather + scatter);
  expect(costs.embedding_forward, 6.0 * activations / kPlainBandwidth + scatter);
  expect(costs.embedding_accumulation,
         table * (2.0 + 2.0 * scenario.stack.gradient_bytes) / kPlainBandwidth);
  expect(costs.logits.matmul, 3.0 * product);
  expect(costs.logits.memory_bound, (52.0 * logits + 7.0 * activations / 2) / kPlainBandwidth);
  expect(costs.logits.tensor_parallel, gather + scatter);
  expect(costs.logits_forward,
         product + (38.0 * logits + 2.0 * activations / 2) / kPlainBandwidth + gather);
  expect(costs.logits_weight_gradient, product);

  // Without sequence parallelism each end has an all-reduce, all of it in the pass that it belongs
  // to.
  const ParallelConfig whole{.tp = 2, .micro_batch_size = 2};
  const double reduce = all_reduce_time(Bytes(activations), pair, scenario.cluster).value();
  const MicrobatchCosts unsplit = microbatch_costs(scenario, whole);
  expect(unsplit.embedding.tensor_parallel, reduce);
  expect(unsplit.embedding_forward, 6.0 * activations / kPlainBandwidth + reduce);
  expect(unsplit.logits_forward, product + (38.0 * logits + 2.0 * activations) / kPlainBandwidth);
  expect(unsplit.logits.memory_bound, (52.0 * logits + 7.0 * activations) / kPlainBandwidth);
}

/// Returns ten layers, three of them dense, on four stages.
Scenario three_dense_layers() {
  Scenario scenario = plain_scenario(small_latent_model());
  scenario.job.model.num_layers = 10;
  scenario.job.model.first_dense_layers = 3;
  return scenario;
}

TEST(RankCosts, AreTheSumOfTheirLayersByKind) {
  const Scenario scenario = three_dense_layers();
  const ParallelConfig config{
      .pp = 4, .dp = 4, .ep = 4, .recompute = Recompute::kFull, .layers_per_stage = {2, 3, 3, 2}};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const auto layer = [&](LayerKind kind) {
    const LayerCosts of_kind = layer_costs(scenario, config, kind);
    return 2.0 * of_kind.forward.total() + of_kind.backward.total();
  };
  const Seconds dense = layer({});
  const Seconds experts = layer({.has_experts = true});
  ASSERT_GT(experts, 1.1 * dense);
  const Seconds overhead = scenario.stack.microbatch_overhead;
  const std::vector<Seconds> expected = {2.0 * dense + costs.embedding.total() + overhead,
                                         dense + 2.0 * experts + overhead, 3.0 * experts + overhead,
                                         2.0 * experts + costs.logits.total() + overhead};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_NEAR(rank_costs({scenario, config, &costs}, rank).total().value(),
                expected[static_cast<std::size_t>(rank)].value(), 1e-12)
        << rank;
  }
  const PipelineCosts pipeline = pipeline_costs({scenario, config, &costs});
  EXPECT_NEAR(pipeline.slowest.total().value(),
              std::max_element(expected.begin(), expected.end())->value(), 1e-12);
  Seconds sum;
  for (const Seconds time : expected) {
    sum += time;
  }
  EXPECT_NEAR(pipeline.mean.value(), sum.value() / 4, 1e-12);
}

// Two chunks per stage of equal layers: stage 0 holds layers 0, 1 and 4, 5, of which 0 … 2 are
// dense.
TEST(LayersOfStage, AreCountedChunkByChunk) {
  TransformerConfig model = resolved(small_latent_model(), "model");
  model.num_layers = 8;
  model.first_dense_layers = 3;
  model.mtp_num_layers = 1;
  const ParallelConfig config{.pp = 2, .vpp = 2, .schedule = ScheduleKind::kInterleaved};
  EXPECT_EQ(layers_of_rank(model, config, 0), (LayerCounts{2.0, 2.0, 0.0, 0.0}));
  EXPECT_EQ(layers_of_rank(model, config, 1), (LayerCounts{1.0, 4.0, 0.0, 0.0}));
  EXPECT_EQ(layers_of_model(model), (LayerCounts{3.0, 6.0, 0.0, 0.0}));
}

// Beside logits of its own a module has a layer like the last, and a linear layer of 2h to h. By
// hand the latter takes 2·512·128·64 FLOPs forward and twice that backward.
TEST(MicrobatchCosts, HaveWhatPredictsMoreTokens) {
  Scenario scenario = plain_scenario(small_latent_model());
  const ParallelConfig config{.micro_batch_size = 2};
  const MicrobatchCosts without = microbatch_costs(scenario, config);
  scenario.job.model.mtp_num_layers = 2;
  const MicrobatchCosts with = microbatch_costs(scenario, config);
  const double join = 2.0 * 512 * 128 * 64 / kPlainFlops;
  EXPECT_NEAR(with.logits.matmul.value(), 3.0 * without.logits.matmul.value() + 2 * 3 * join,
              1e-12);
  EXPECT_NEAR(with.logits_weight_gradient.value(),
              3.0 * without.logits_weight_gradient.value() + 2 * join, 1e-12);
  EXPECT_EQ(with.embedding.total(), without.embedding.total());
  EXPECT_NEAR((rank_costs({scenario, config, &with}, 0).forward.matmul -
               6.0 * with.layers[0].forward.matmul)
                  .value(),
              (5.0 * with.layers[1].forward.matmul - 5.0 * with.layers[0].forward.matmul).value(),
              1e-12);
  // Both tables get two more gradients of each microbatch.
  EXPECT_NEAR(rank_costs({scenario, config, &with}, 0).gradient_accumulation.value(),
              6.0 * with.embedding_accumulation.value(), 1e-12);
  // Times of a machine that runs products twice as long count for them, too.
  scenario.cluster.time_factors.matmul = 2.0;
  EXPECT_NEAR(microbatch_costs(scenario, config).logits.matmul.value(),
              2.0 * with.logits.matmul.value(), 1e-12);
}

}  // namespace
}  // namespace ptdp
