// Tests of the costs of a transformer layer, and of its tensor-parallel volume.
#include "cost_model/layer/transformer_layer.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/layer/split_key_heads.h"
#include "cost_model/memory/memory.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/linear_layer.h"
#include "cost_model/operations/memory_bound.h"
#include "tests/cost_model/plain_scenario.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

TEST(LayerCosts, RecomputeRepeatsTheForwardPassOrItsAttention) {
  const LayerCosts costs = layer_costs(selene_2021("18B"), {.tp = 8, .micro_batch_size = 4});
  EXPECT_EQ(costs.recompute(Recompute::kNone).total(), Seconds(0.0));
  EXPECT_EQ(costs.recompute(Recompute::kFull).total(), costs.forward.total());
  EXPECT_EQ(costs.recompute(Recompute::kSelective).total(), costs.forward.attention);
}

// Two all-reduces of 2bsh bytes in each pass; the stack of 2021 hides none.
TEST(LayerCosts, ExposeTwoAllReducesPerPassWithoutOverlap) {
  const Scenario scenario = selene_2021("18B");
  const ParallelConfig config{.tp = 8, .micro_batch_size = 4};
  const LayerCosts costs = layer_costs(scenario, config);
  const Bytes activations(2.0 * 4 * 2048 * 6144);
  const Seconds all_reduce = all_reduce_time(
      activations, place_group(RankGrid(config), Dimension::kTensor, scenario.cluster),
      scenario.cluster);
  EXPECT_EQ(costs.forward.tensor_parallel, 2.0 * all_reduce);
  EXPECT_EQ(costs.backward.tensor_parallel, 2.0 * all_reduce);
}

// Messages and weight-gradient products of fp32 are twice as large; a stack that accumulates in its
// precision writes and reads 4 bytes per weight in place of 2.
TEST(LayerCosts, MoveElementsOfThePrecision) {
  Scenario scenario = selene_2021("18B");
  scenario.stack.gradient_bytes = 2.0;
  scenario.cluster.gpu.peak_fp32 = scenario.cluster.gpu.peak_fp16;
  const ParallelConfig config{.tp = 8, .micro_batch_size = 4};
  const GpuSpec& gpu = scenario.cluster.gpu;
  EXPECT_EQ(gradient_accumulation_time(1e6, gpu, scenario.stack),
            Seconds(6e6 / (gpu.memory_bandwidth.value() * gpu.memory_efficiency)));
  scenario.stack.precision = Precision::kFp32;
  scenario.stack.gradient_bytes = 4.0;
  EXPECT_EQ(gradient_accumulation_time(1e6, gpu, scenario.stack),
            Seconds(12e6 / (gpu.memory_bandwidth.value() * gpu.memory_efficiency)));
  const Bytes activations(4.0 * 4 * 2048 * 6144);
  const Seconds all_reduce = all_reduce_time(
      activations, place_group(RankGrid(config), Dimension::kTensor, scenario.cluster),
      scenario.cluster);
  EXPECT_EQ(layer_costs(scenario, config).forward.tensor_parallel, 2.0 * all_reduce);
}

// NVLS makes an all-reduce cheaper than the two collectives that sequence parallelism has in its
// place.
TEST(LayerCosts, GatherAndScatterWithSequenceParallelism) {
  const Scenario scenario = shipped_scenario("18B", "dgx-h100", "megatron-core-2024");
  ParallelConfig config{.tp = 8, .micro_batch_size = 4, .sequence_parallel = true};
  const Seconds with = layer_costs(scenario, config).forward.tensor_parallel;
  const Bytes activations(2.0 * 4 * 2048 * 6144);
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, scenario.cluster);
  EXPECT_EQ(with, 2.0 * (all_gather_time(activations, group, scenario.cluster) +
                         reduce_scatter_time(activations, group, scenario.cluster)));
  config.sequence_parallel = false;
  EXPECT_GT(with, 1.2 * layer_costs(scenario, config).forward.tensor_parallel);
}

// Two gathers less; they come back as memory: 7 of 8 shares of two inputs, of 2 bytes.
TEST(LayerCosts, GatherInputsOnceWhereTheyAreKept) {
  Scenario scenario = shipped_scenario("18B", "dgx-h100", "megatron-core-2024");
  scenario.stack.tensor_parallel_overlap = false;
  const ParallelConfig config{.tp = 8, .micro_batch_size = 4, .sequence_parallel = true};
  const Bytes activations(2.0 * 4 * 2048 * 6144);
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, scenario.cluster);
  const Seconds again = layer_costs(scenario, config).backward.tensor_parallel;
  const Bytes shared = kept_by_layer(scenario, config, {});
  scenario.stack.keeps_gathered_inputs = true;
  EXPECT_NEAR((again - layer_costs(scenario, config).backward.tensor_parallel).value(),
              (2.0 * all_gather_time(activations, group, scenario.cluster)).value(), 1e-12);
  EXPECT_NEAR((kept_by_layer(scenario, config, {}) - shared).value(),
              2.0 * 7.0 / 8.0 * activations.value(), 1.0);
}

TEST(LayerCosts, ExposeLessBackwardCommunicationWithOverlap) {
  const ParallelConfig config{.tp = 8, .micro_batch_size = 4};
  const LayerCosts exposed = layer_costs(selene_2021("18B"), config);
  const LayerCosts hidden =
      layer_costs(shipped_scenario("18B", "selene-a100", "megatron-lm-2022"), config);
  EXPECT_EQ(hidden.forward.tensor_parallel, exposed.forward.tensor_parallel);
  EXPECT_LT(hidden.backward.tensor_parallel, 0.5 * exposed.backward.tensor_parallel);
}

/// Returns what a stack leaves exposed of a collective that runs behind a product.
Seconds beside(Seconds collective, Seconds product, double slowdown) {
  return collective < product ? slowdown * collective : collective - product + slowdown * product;
}

// runtime/model/layers/MESSAGES.md, "What runs behind what": of QKV (3h outputs) and of h→4h each,
// with sequence parallelism the gather behind the input gradient, the sum behind the weight
// gradient. Products are as fast that an all-reduce takes longer than the former's and less than
// the latter's: together they would hide more.
TEST(LayerCosts, HideInOurRuntimeWhatEachLayerCan) {
  Scenario scenario = selene_2021("18B");
  scenario.stack.memory_model = MemoryModel::kPtdp;
  scenario.stack.workspace = Bytes(1.0);
  scenario.stack.overlap_slowdown = 0.25;
  scenario.stack.tensor_parallel_overlap = true;
  const GpuSpec& gpu = scenario.cluster.gpu;
  const std::int64_t tokens = std::int64_t{4} * 2048;
  const Bytes activations(2.0 * static_cast<double>(tokens) * 6144);
  ParallelConfig config{.tp = 8, .micro_batch_size = 4};
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, scenario.cluster);
  LinearTime qkv = linear_time(tokens, 3 * 6144 / 8, 6144, gpu, scenario.stack);
  LinearTime up = linear_time(tokens, 4 * 6144 / 8, 6144, gpu, scenario.stack);
  const Seconds sum = all_reduce_time(activations, group, scenario.cluster);
  const double factor = 2.0 * sum / (qkv.weight_gradient + up.weight_gradient);
  scenario.cluster.time_factors.matmul = factor;
  for (LinearTime* layer : {&qkv, &up}) {
    layer->input_gradient = factor * layer->input_gradient;
    layer->weight_gradient = factor * layer->weight_gradient;
  }
  ASSERT_LT(qkv.weight_gradient, sum);
  ASSERT_GT(up.weight_gradient, sum);
  EXPECT_DOUBLE_EQ(
      layer_costs(scenario, config).backward.tensor_parallel.value(),
      (beside(sum, qkv.weight_gradient, 0.25) + beside(sum, up.weight_gradient, 0.25)).value());

  config.sequence_parallel = true;
  const Seconds gather = all_gather_time(activations, group, scenario.cluster);
  const Seconds scatter = reduce_scatter_time(activations, group, scenario.cluster);
  Seconds exposed = 2.0 * gather;
  for (const LinearTime& layer : {qkv, up}) {
    exposed +=
        beside(gather, layer.input_gradient, 0.25) + beside(scatter, layer.weight_gradient, 0.25);
  }
  EXPECT_DOUBLE_EQ(layer_costs(scenario, config).backward.tensor_parallel.value(), exposed.value());

  // The actions of a schedule that splits backward passes have one product each.
  config.schedule = ScheduleKind::kZbH1;
  EXPECT_DOUBLE_EQ(layer_costs(scenario, config).backward.tensor_parallel.value(),
                   (4.0 * gather + 2.0 * scatter).value());
}

// Two GPUs share sequences of 8192 tokens of Llama 3 8B: 32 heads in 8 groups of 128. By hand: half
// of the causal pairs, 4·128 FLOPs each and head, in blocks of 4096 tokens, and 3 passes over the
// outputs of 4096 tokens to add two partial results; K and V of 4096 tokens go to the other behind
// the first half of that.
TEST(LayerCosts, OfSharedSequencesByHand) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2024");
  scenario.job.model.seq_length = 8192;
  scenario.stack.host_time_per_kernel = Seconds(0.0);
  scenario.cluster.gpu.card_spread = 0.0;
  const GpuSpec& gpu = scenario.cluster.gpu;
  ASSERT_TRUE(gpu.measured_operations.empty());
  const LayerCosts costs = layer_costs(scenario, {.cp = 2});
  const auto rate = std::find_if(
      gpu.attention_rates.begin(), gpu.attention_rates.end(), [&](const AttentionRate& entry) {
        return entry.kernel == scenario.stack.attention && entry.head_width == 128;
      });
  const double flops = 8192.0 * 8192 / 2 / 2 * 4 * 128 * 32;
  const double product =
      flops / (gpu.peak_fp16.value() * rate->forward) * (1.0 + rate->half_rate_length / 4096);
  const double outputs = 2.0 * 4096 * 32 * 128;
  const double sum = 3.0 * outputs / (gpu.memory_bandwidth.value() * gpu.memory_efficiency);
  EXPECT_NEAR(costs.forward.attention.value(), product + sum, 1e-9);
  const double message =
      2.0 * 2 * 4096 * 8 * 128 / scenario.cluster.nvlink.effective_bandwidth().value();
  ASSERT_LT(message, product / 2);
  EXPECT_NEAR(costs.forward.context_parallel.value(), scenario.stack.overlap_slowdown * message,
              1e-12);
  EXPECT_EQ(costs.forward.collectives(), costs.forward.context_parallel);
  EXPECT_GT(costs.backward.context_parallel, costs.forward.context_parallel);

  // All else is that of as many tokens.
  scenario.job.model.seq_length = 4096;
  const LayerCosts half = layer_costs(scenario, {});
  EXPECT_EQ(costs.forward.matmul, half.forward.matmul);
  EXPECT_EQ(costs.backward.matmul, half.backward.matmul);
  EXPECT_EQ(costs.forward.memory_bound, half.forward.memory_bound);
  EXPECT_EQ(costs.backward.memory_bound, half.backward.memory_bound);
  EXPECT_EQ(half.forward.context_parallel, Seconds(0.0));
}

TEST(LayerCosts, RecomputeAttentionWithItsCommunication) {
  for (const auto& [kind, name] : kContextParallelNames) {
    Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2024");
    scenario.stack.context_parallel_kind = kind;
    const LayerCosts costs = layer_costs(scenario, {.tp = 2, .cp = 4, .sequence_parallel = true});
    ASSERT_GT(costs.forward.context_parallel, Seconds(0.0)) << name;
    const PassTime again = costs.recompute(Recompute::kSelective);
    EXPECT_EQ(again.context_parallel, costs.forward.context_parallel) << name;
    EXPECT_EQ(again.total(), costs.forward.attention + costs.forward.context_parallel) << name;
    EXPECT_EQ(costs.recompute(Recompute::kFull).total(), costs.forward.total()) << name;
    EXPECT_EQ((costs.forward + costs.backward).context_parallel,
              costs.forward.context_parallel + costs.backward.context_parallel);
    EXPECT_EQ((costs.forward * 3.0).context_parallel, 3.0 * costs.forward.context_parallel);
    EXPECT_EQ(costs.weight_gradient.context_parallel, Seconds(0.0));
  }
}

TEST(LayerCosts, HaveNoCommunicationOnOneGpu) {
  const LayerCosts costs = layer_costs(selene_2021("1.7B"), {.micro_batch_size = 4});
  EXPECT_EQ(costs.forward.tensor_parallel, Seconds(0.0));
  EXPECT_EQ(costs.backward.tensor_parallel, Seconds(0.0));
}

TEST(LayerCosts, AreBoundByTheHostForTinyLayers) {
  const Scenario scenario = selene_2021("gpt-tiny");
  const LayerCosts costs = layer_costs(scenario, {.micro_batch_size = 1});
  // 30 kernels forward and 60 backward at 7 us.
  EXPECT_DOUBLE_EQ(costs.forward.total().value(), 210e-6);
  EXPECT_DOUBLE_EQ(costs.backward.total().value(), 420e-6);
  EXPECT_GT(costs.forward.launch, 0.5 * costs.forward.total());
}

// A pass that waits for the host lasts as long as its launches, collectives or not. Where such a
// layer was measured to take longer than that, so does the pass.
TEST(LayerCosts, BoundByTheHostAreAsLongAsMeasuredBesideCollectives) {
  Scenario scenario = selene_2021("gpt-tiny");
  const ParallelConfig config{.tp = 2, .micro_batch_size = 1};
  const LayerCosts modeled = layer_costs(scenario, config);
  ASSERT_GT(modeled.forward.tensor_parallel, 0.1 * modeled.forward.total());
  ASSERT_GT(modeled.forward.launch, 0.3 * modeled.forward.total());
  scenario.cluster.gpu.layer_factors = {
      {.tokens = 1.0 * scenario.job.model.seq_length, .tp = 2, .forward = 1.5, .backward = 1.25}};
  const LayerCosts measured = layer_costs(scenario, config);
  EXPECT_DOUBLE_EQ(measured.forward.total() / modeled.forward.total(), 1.5);
  EXPECT_DOUBLE_EQ(measured.backward.total() / modeled.backward.total(), 1.25);
  EXPECT_EQ(measured.forward.tensor_parallel, modeled.forward.tensor_parallel);
}

TEST(LayerCosts, AccumulateGradientsForNothingWhereTheProductDoes) {
  const ParallelConfig config{.tp = 8};
  EXPECT_EQ(layer_costs(shipped_scenario("18B", "selene-a100", "megatron-lm-2022"), config)
                .gradient_accumulation,
            Seconds(0.0));
  // By hand: 12h²/8 weights of 2 + 2 + 2 bytes at 0.7 · 2039 GB/s.
  EXPECT_NEAR(layer_costs(selene_2021("18B"), config).gradient_accumulation.value(),
              12.0 * 6144 * 6144 / 8 * 6 / (0.7 * 2039e9), 1e-9);
}

// Korthikanti et al. (arXiv:2205.05198) table 4: one layer of the 22B model, b = 4, t = 8, measured
// in ms, forward and backward together. memory_efficiency was chosen by the first two rows, the
// others follow.
TEST(LayerCosts, AreThoseMeasuredForTheLayerOfThe22BModel) {
  const Scenario scenario = shipped_scenario("22B", "selene-a100", "megatron-lm-2022");
  struct Row {
    Recompute recompute;
    bool is_sequence_parallel;
    double measured_ms;
  };
  for (const Row& row :
       {Row{Recompute::kNone, false, 19.6}, Row{Recompute::kNone, true, 19.0},
        Row{Recompute::kFull, false, 27.2}, Row{Recompute::kSelective, false, 20.9},
        Row{Recompute::kSelective, true, 20.3}}) {
    const LayerCosts costs = layer_costs(
        scenario, {.tp = 8, .micro_batch_size = 4, .sequence_parallel = row.is_sequence_parallel});
    const double ms =
        1e3 * (costs.forward + costs.backward + costs.recompute(row.recompute)).total().value();
    EXPECT_NEAR(ms / row.measured_ms, 1.0, 0.06)
        << name_of(row.recompute) << ' ' << row.is_sequence_parallel;
  }
}

// SC21 3.2: 8bsh(t−1)/t elements per layer, four more with recomputation, two more with sequence
// parallelism.
TEST(TensorParallelElements, OfADenseLayerAreThoseOfThePapers) {
  const TransformerConfig model = find_model("18B").config;
  for (const int tp : {1, 2, 8}) {
    for (const int b : {1, 4}) {
      for (const Recompute recompute :
           {Recompute::kNone, Recompute::kSelective, Recompute::kFull}) {
        for (const bool splits_sequences : {false, true}) {
          const ParallelConfig config{.tp = tp,
                                      .micro_batch_size = b,
                                      .recompute = recompute,
                                      .sequence_parallel = splits_sequences};
          EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, config, LayerKind{}),
                           tensor_parallel_elements(model, b, tp, recompute, splits_sequences));
        }
      }
    }
  }
}

// By hand, over four ranks with sequence parallelism: in, h of attention alone, where the MLP's
// tokens go to experts without them; out, h. Forward 2h, backward h + 2h.
TEST(TensorParallelElements, OfALayerWithExpertsAreThoseOfItsAttention) {
  const TransformerConfig model = resolved(small_expert_model(), "model");
  const ParallelConfig config{.tp = 4, .micro_batch_size = 2, .sequence_parallel = true};
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, config, {.has_experts = true}),
                   5.0 * 64 * 512 * 3 / 4);
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, config, {}), 10.0 * 64 * 512 * 3 / 4);
}

// By hand, over four ranks that share two key heads of 16 in pairs: 8 queries heads of 16 are 128
// elements, keys and values 64. They are gathered in each forward pass and reduced in the backward
// one, beside the 4h and 6h of the rest.
TEST(TensorParallelElements, HaveSplitKeyHeadsGatheredAndReduced) {
  TransformerConfig model = {.num_layers = 1,
                             .hidden_size = 64,
                             .num_attention_heads = 8,
                             .num_query_groups = 2,
                             .kv_channels = 16,
                             .ffn_hidden_size = 128,
                             .seq_length = 256};
  EXPECT_EQ(gathered_head_width(model, 2, SplitKeyHeads::kGatherQkv), 0.0);
  EXPECT_EQ(gathered_head_width(model, 4, SplitKeyHeads::kNever), 0.0);
  EXPECT_EQ(gathered_head_width(model, 4, SplitKeyHeads::kGatherKeysAndValues), 64.0);
  EXPECT_EQ(gathered_head_width(model, 4, SplitKeyHeads::kGatherQkv), 128.0 + 64.0);
  ParallelConfig config{.tp = 4, .micro_batch_size = 2, .sequence_parallel = true};
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, config, {}, 1.0, 1.0, 64.0),
                   (10.0 * 64 + 2 * 64) * 512 * 3 / 4);
  config.recompute = Recompute::kFull;
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, config, {}, 1.0, 1.0, 192.0),
                   (14.0 * 64 + 3 * 192) * 512 * 3 / 4);
  config.recompute = Recompute::kSelective;  // queries, keys and values are kept
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, config, {}, 1.0, 1.0, 64.0),
                   (10.0 * 64 + 2 * 64) * 512 * 3 / 4);
}

// Qwen2.5 7B has four key heads. Over eight ranks a layer waits for one more all-gather and one
// more reduce-scatter of its heads, and for the passes over them.
TEST(LayerCosts, OfSplitKeyHeadsHaveTheirCollectives) {
  Scenario scenario{.job = {.model = find_model("qwen2.5-7b").config, .global_batch_size = 512},
                    .cluster = find_cluster("dgx-h100"),
                    .stack = find_stack("megatron-bridge-2026-cuda-graphs")};
  scenario.stack.fp8.reset();
  scenario.stack.tp_comm_overlap = TpCommOverlap::kNone;
  scenario.stack.tensor_parallel_overlap = false;
  const TransformerConfig& model = scenario.job.model;
  ASSERT_EQ(model.num_query_groups, 4);
  const ParallelConfig config{.tp = 8, .dp = 64, .micro_batch_size = 1};
  const LayerCosts split = layer_costs(scenario, config);
  scenario.stack.can_run.split_key_heads = SplitKeyHeads::kNever;
  const LayerCosts without = layer_costs(scenario, config);
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, scenario.cluster);
  const Bytes heads(2.0 * model.seq_length * (28 + 2 * 4) * 128);
  EXPECT_NEAR((split.forward.tensor_parallel - without.forward.tensor_parallel) /
                  all_gather_time(heads, group, scenario.cluster),
              1.0, 0.02);  // and the members' skew over the added passes
  EXPECT_NEAR((split.backward.tensor_parallel - without.backward.tensor_parallel) /
                  reduce_scatter_time(heads, group, scenario.cluster),
              1.0, 0.02);
  EXPECT_NEAR((split.forward.memory_bound - without.forward.memory_bound) /
                  memory_bound_time(2.0 * heads, scenario.cluster.gpu),
              1.0, 1e-9);
}

// Over four ranks of this project's runtime a layer waits for the sums of two f32 of each token in
// both passes, and forms them by two more kernels of two factors each, of its part of 32 query and
// of 32 key heads of 128. Other stacks are taken to do as with norms of single heads.
TEST(LayerCosts, OfNormsOverTheHeadsOfAllRanksHaveTheirSums) {
  Scenario scenario{.job = {.model = find_model("llama-2-7b").config, .global_batch_size = 512},
                    .cluster = find_cluster("dgx-h100"),
                    .stack = find_stack("ptdp-cuda")};
  TransformerConfig& model = scenario.job.model;
  model.qk_layernorm = true;
  ASSERT_EQ(model.num_query_groups * model.kv_channels, 32 * 128);
  const ParallelConfig config{.tp = 4, .dp = 64, .micro_batch_size = 1};
  const LayerCosts of_heads = layer_costs(scenario, config);
  model.qk_layernorm_width = QkNormWidth::kAllHeads;
  const LayerCosts of_all = layer_costs(scenario, config);
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, scenario.cluster);
  const Seconds sums =
      all_reduce_time(Bytes(2.0 * 4.0 * model.seq_length), group, scenario.cluster);
  EXPECT_GT(sums, Seconds(0.0));
  EXPECT_NEAR((of_all.forward.tensor_parallel - of_heads.forward.tensor_parallel) / sums, 1.0,
              0.02);
  EXPECT_NEAR((of_all.backward.tensor_parallel - of_heads.backward.tensor_parallel) / sums, 1.0,
              0.02);
  const Bytes heads(2.0 * model.seq_length * 2.0 * 32 * 128 / 4);
  const Seconds pass = memory_bound_time(heads, scenario.cluster.gpu);
  const Seconds products = 2.0 * pass + 2.0 * scenario.cluster.gpu.kernel_latency;
  EXPECT_NEAR((of_all.forward.memory_bound - of_heads.forward.memory_bound) / products, 1.0, 1e-9);
  EXPECT_NEAR((of_all.backward.memory_bound - of_heads.backward.memory_bound) / products, 1.0,
              1e-9);
  scenario.stack = find_stack("megatron-core-2025");
  const LayerCosts other = layer_costs(scenario, config);
  model.qk_layernorm_width = QkNormWidth::kHead;
  EXPECT_EQ(other.forward.total(), layer_costs(scenario, config).forward.total());
  EXPECT_EQ(other.backward.total(), layer_costs(scenario, config).backward.total());
}

// Compressed are 48 of queries and 32 + 8 of keys and values: these are gathered in place of 64.
TEST(TensorParallelElements, OfLatentAttentionAreThoseOfWhatIsCompressed) {
  const TransformerConfig model = resolved(small_latent_model(), "model");
  const ParallelConfig config{.tp = 4, .micro_batch_size = 2, .sequence_parallel = true};
  const double in = 48 + 32 + 8 + 64;  // and the shared expert's, or the dense MLP's
  const double out = 64 + 64;
  for (const LayerKind kind : {LayerKind{}, LayerKind{.has_experts = true}}) {
    EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, config, kind),
                     ((in + out) + (out + 2 * in)) * 512 * 3 / 4);
  }
}

/// Returns the FLOPs of the products of latent attention on a rank of `tp`, by hand. They are two
/// compressions of `compressed_tokens`, decompressions to four heads of 24 and of 16 + 24, and the
/// projection from four heads of 24.
double latent_flops(double tokens, double compressed_tokens, int tp) {
  const double compressions = 2.0 * compressed_tokens * 64 * (48 + 32 + 8);
  return compressions + 2.0 * tokens * (48 * 4 * 24 + 32 * 4 * (16 + 24) + 4 * 24 * 64) / tp;
}

TEST(LayerCosts, OfLatentAttentionAreThoseOfItsProductsByHand) {
  const Scenario scenario = plain_scenario(small_latent_model());
  const auto flops = [&](const ParallelConfig& config, LayerKind kind) {
    return layer_costs(scenario, config, kind).forward.matmul.value() * kPlainFlops;
  };
  const double mlp = 2.0 * 512 * 3 * 64 * 192;
  EXPECT_NEAR(flops({.micro_batch_size = 2}, {}), latent_flops(512, 512, 1) + mlp, 1.0);
  EXPECT_NEAR(flops({.tp = 2, .micro_batch_size = 2}, {}), latent_flops(512, 512, 2) + mlp / 2,
              1.0);
  const ParallelConfig split{.tp = 2, .micro_batch_size = 2, .sequence_parallel = true};
  EXPECT_NEAR(flops(split, {}), latent_flops(512, 256, 2) + mlp / 2, 1.0);
  // With experts: a shared one of 128, the router, and 2·256 rows for the experts of one rank.
  const double shared = 2.0 * 512 * 3 * 64 * 128 / 2;
  const double experts = 2.0 * 256 * 64 * 8 + 2.0 * 512 * 3 * 64 * 128;
  EXPECT_NEAR(flops(split, {.has_experts = true}), latent_flops(512, 256, 2) + shared + experts,
              1.0);
}

// FlashAttention's causal half of 2·bs²a(d_q + d_v): heads of 24 and of 24.
TEST(LayerCosts, OfAWindowAreItsShareOfAttentionAlone) {
  Scenario scenario = plain_scenario(small_expert_model());
  scenario.job.model.window_size = 64;
  scenario.job.model.first_window_layer = 2;
  scenario.cluster.gpu.attention_rates = {{.kernel = scenario.stack.attention,
                                           .forward = 0.5,
                                           .backward = 0.5,
                                           .half_rate_length = 112.0}};
  const ParallelConfig config{.micro_batch_size = 2};
  const LayerCosts whole = layer_costs(scenario, config, {.has_experts = true});
  const LayerCosts windowed =
      layer_costs(scenario, config, {.has_experts = true, .has_window = true});
  // w − w²/2s of s/2 tokens: 64 − 8 of 128. They are seen at half of the rate, as in 112 tokens.
  EXPECT_NEAR(windowed.forward.attention / whole.forward.attention,
              56.0 / 128.0 * 2.0 / (1.0 + 112.0 / 256.0), 1e-12);
  EXPECT_EQ(windowed.forward.matmul, whole.forward.matmul);
  EXPECT_EQ(windowed.backward.memory_bound, whole.backward.memory_bound);
}

}  // namespace
}  // namespace ptdp
