// Tests of a step of this project's runtime on an H200 of the catalog, whose work is counted by
// hand: products by shape, bytes, starts of kernels and attention's FLOPs.
#include <gtest/gtest.h>

#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/transformer_layer.h"
#include "cost_model/operations/gemm.h"

namespace ptdp {
namespace {

constexpr std::int64_t kStepTokens = 4096;
constexpr std::int64_t kStepHidden = 4096;
constexpr std::int64_t kStepVocabulary = 50304;
constexpr double kStepLayers = 12.0;
constexpr double kStepMicrobatches = 8.0;
// Bytes of a hidden state, of two bytes an element.
constexpr double kHiddenState = 2.0 * kStepTokens * kStepHidden;

/// Returns GPT of twelve layers, trained without dropout.
TransformerConfig gpt_of_twelve_layers() {
  TransformerConfig model{.num_layers = 12,
                          .hidden_size = kStepHidden,
                          .num_attention_heads = 32,
                          .vocab_size = kStepVocabulary,
                          .seq_length = kStepTokens};
  model.dropout = false;
  return resolved(model, "model");
}

/// Returns Llama's layers: 32 query heads of 128 for 8 key heads, gates, an MLP of 14336.
TransformerConfig llama_of_twelve_layers() {
  TransformerConfig model = gpt_of_twelve_layers();
  model.num_query_groups = 8;
  model.ffn_hidden_size = 14336;
  model.gated_linear_unit = true;
  model.add_bias_linear = false;
  model.position_embedding = PositionEmbedding::kRope;
  model.normalization = Normalization::kRmsNorm;
  return model;
}

/// Returns a job of eight microbatches on one H200 of the catalog.
Scenario job_on_h200(const TransformerConfig& model) {
  return {.job = {.model_name = "by hand",
                  .model = model,
                  .global_batch_size = static_cast<std::int64_t>(kStepMicrobatches)},
          .cluster = find_cluster("hgx-h200"),
          .stack = find_stack("ptdp-cuda")};
}

const ParallelConfig kAloneOnGpu = {.micro_batch_size = 1};

/// A product of [m, k] and [k, n].
struct CountedProduct {
  std::int64_t m;
  std::int64_t n;
  std::int64_t k;
};

double counted_flops(const std::vector<CountedProduct>& products) {
  double flops = 0.0;
  for (const CountedProduct& each : products) {
    flops += 2.0 * static_cast<double>(each.m) * static_cast<double>(each.n) *
             static_cast<double>(each.k);
  }
  return flops;
}

/// Returns the time of products whose results have two bytes an element.
double counted_time(const std::vector<CountedProduct>& products, const GpuSpec& gpu) {
  double time = 0.0;
  for (const auto& [m, n, k] : products) {
    time += matmul_time({.m = m, .n = n, .k = k, .element_bytes = 2, .output_bytes = 2}, gpu,
                        gpu.peak_bf16)
                .value();
  }
  return time;
}

/// Returns the time of products that add to gradients in f32.
double counted_time_of_sums(const std::vector<CountedProduct>& products, const GpuSpec& gpu) {
  double time = 0.0;
  for (const auto& [m, n, k] : products) {
    time += matmul_time(
                {.m = m, .n = n, .k = k, .element_bytes = 2, .output_bytes = 4, .accumulate = true},
                gpu, gpu.peak_bf16)
                .value();
  }
  return time;
}

/// Returns the time that element-wise kernels take to move bytes.
double time_to_move(double bytes, const GpuSpec& gpu) {
  return bytes / (gpu.memory_bandwidth.value() * gpu.memory_efficiency);
}

// QKV, projection and both products of the MLP, in the order of their factors.
const std::vector<CountedProduct> kGptForward = {{kStepTokens, 3 * kStepHidden, kStepHidden},
                                                 {kStepTokens, kStepHidden, kStepHidden},
                                                 {kStepTokens, 4 * kStepHidden, kStepHidden},
                                                 {kStepTokens, kStepHidden, 4 * kStepHidden}};
const std::vector<CountedProduct> kGptInputGradients = {
    {kStepTokens, kStepHidden, 3 * kStepHidden},
    {kStepTokens, kStepHidden, kStepHidden},
    {kStepTokens, kStepHidden, 4 * kStepHidden},
    {kStepTokens, 4 * kStepHidden, kStepHidden}};
const std::vector<CountedProduct> kGptWeightGradients = {
    {3 * kStepHidden, kStepHidden, kStepTokens},
    {kStepHidden, kStepHidden, kStepTokens},
    {4 * kStepHidden, kStepHidden, kStepTokens},
    {kStepHidden, 4 * kStepHidden, kStepTokens}};

// Forward a layer's own kernels move 9 hidden states: norm 2; projection's bias, residual and norm
// 4; the last bias and residual 3. Backward they move 15: two norms 4 each, which sum two bias
// gradients as well, and two bias gradients more of 3 + 4. Products write GELU's input, and read
// it: 4 each.
//
// These are 3 of the 8 kernels forward and 8 of the 21 backward, 2 for each of two norms and of two
// bias gradients. Five backward are attention's, and eight are products.
TEST(ListedStep, OfGptOnAnH200IsTheSumOfWhatWasCountedByHand) {
  const Scenario scenario = job_on_h200(gpt_of_twelve_layers());
  const GpuSpec& gpu = scenario.cluster.gpu;
  ASSERT_TRUE(lists_operations(scenario));
  ASSERT_FALSE(has_measured_operations(scenario));
  const CostBreakdown cost = iteration_cost({scenario, kAloneOnGpu});
  const double passes = kStepLayers * kStepMicrobatches;

  EXPECT_EQ(counted_flops(kGptForward), 24.0 * kStepTokens * kStepHidden * kStepHidden);
  EXPECT_EQ(counted_flops(kGptInputGradients), counted_flops(kGptForward));
  EXPECT_EQ(counted_flops(kGptWeightGradients), counted_flops(kGptForward));
  const double matmul =
      passes *
      (counted_time(kGptForward, gpu) + counted_time(kGptInputGradients, gpu) +
       counted_time_of_sums(kGptWeightGradients, gpu) + time_to_move(8.0 * kHiddenState, gpu));
  EXPECT_NEAR(cost.matmul.value(), matmul, 1e-9);

  // The causal half of QKᵀ and PV; 2.5 times as much backward. Rates are those of the catalog, of
  // which as many tokens reach a part.
  const double causal = 2.0 * kStepTokens * kStepTokens * kStepHidden;
  const double attention =
      passes * causal / 989.4e12 *
      (1.0 / 0.5321 * (1.0 + 767.0 / kStepTokens) + 2.5 / 0.4801 * (1.0 + 1097.0 / kStepTokens));
  EXPECT_NEAR(cost.attention.value(), attention, 1e-9);

  const double start = gpu.kernel_latency.value();
  const double own =
      passes * (time_to_move((9.0 + 15.0) * kHiddenState, gpu) + (3.0 + 4.0) * start);
  EXPECT_NEAR(cost.memory_bound.value(), own, 1e-9);
  // One start of each operation, and that of each product, is part of its time.
  const double launch = passes * (8.0 + 21.0 - 3.0 - 4.0 - 4.0 - 8.0) * start;
  const double overhead = kStepMicrobatches * 50e-6;
  EXPECT_NEAR(cost.launch.value(), launch + overhead, 1e-9);

  // Rows, positions and their gradients 8; the last norm 6, cleared gradients 1; logits read twice
  // in each pass: nine operations.
  const double logits = 2.0 * kStepTokens * kStepVocabulary;
  const double ends = kStepMicrobatches *
                      (counted_time({{kStepTokens, kStepVocabulary, kStepHidden},
                                     {kStepTokens, kStepHidden, kStepVocabulary}},
                                    gpu) +
                       counted_time_of_sums({{kStepVocabulary, kStepHidden, kStepTokens}}, gpu) +
                       time_to_move(15.0 * kHiddenState + 4.0 * logits, gpu) + 9.0 * start);
  EXPECT_NEAR(cost.embedding_and_logits.value(), ends, 1e-9);

  // Twelve layers of 12h² + 13h, the table and the positions, the last norm; 38 bytes each.
  const double parameters = kStepLayers * (12.0 * kStepHidden * kStepHidden + 13.0 * kStepHidden) +
                            (kStepVocabulary + kStepTokens) * kStepHidden + 2.0 * kStepHidden;
  const double optimizer = time_to_move(38.0 * parameters, gpu);
  EXPECT_NEAR(cost.optimizer.value(), optimizer, 1e-9);
  EXPECT_NEAR(cost.total().value(), matmul + attention + own + launch + overhead + ends + optimizer,
              1e-9);
}

// In hidden states, with f = 3.5h and keys a quarter as wide as queries: norm 2, rotary positions
// 2·1.25, residual and norm 4, gate 3·3.5, residual 3 forward; gate 5·3.5, rotary positions 2·1.25,
// norms 2·4 backward. Forward these are five kernels of ten, and backward six of nineteen.
TEST(ListedStep, OfALlamaLayerOnAnH200IsTheSumOfWhatWasCountedByHand) {
  const Scenario scenario = job_on_h200(llama_of_twelve_layers());
  const GpuSpec& gpu = scenario.cluster.gpu;
  const LayerCosts costs = layer_costs(scenario, kAloneOnGpu);
  const double start = gpu.kernel_latency.value();
  EXPECT_NEAR(costs.forward.memory_bound.value(),
              time_to_move((2.0 + 2.5 + 4.0 + 10.5 + 3.0) * kHiddenState, gpu) + 5.0 * start,
              1e-12);
  EXPECT_NEAR(costs.backward.memory_bound.value(),
              time_to_move((17.5 + 2.5 + 8.0) * kHiddenState, gpu) + 4.0 * start, 1e-12);
  EXPECT_NEAR(costs.forward.launch.value(), (10.0 - 5.0 - 4.0) * start, 1e-12);
  EXPECT_NEAR(costs.backward.launch.value(), (19.0 - 4.0 - 8.0) * start, 1e-12);

  constexpr std::int64_t mlp_width = 14336;
  constexpr std::int64_t qkv_width = 4096 + 2 * 1024;
  EXPECT_NEAR(costs.forward.matmul.value(),
              counted_time({{kStepTokens, qkv_width, kStepHidden},
                            {kStepTokens, kStepHidden, kStepHidden},
                            {kStepTokens, 2 * mlp_width, kStepHidden},
                            {kStepTokens, kStepHidden, mlp_width}},
                           gpu),
              1e-12);
  EXPECT_NEAR(costs.backward.matmul.value(),
              counted_time({{kStepTokens, kStepHidden, qkv_width},
                            {kStepTokens, kStepHidden, kStepHidden},
                            {kStepTokens, kStepHidden, 2 * mlp_width},
                            {kStepTokens, mlp_width, kStepHidden}},
                           gpu) +
                  counted_time_of_sums({{qkv_width, kStepHidden, kStepTokens},
                                        {kStepHidden, kStepHidden, kStepTokens},
                                        {2 * mlp_width, kStepHidden, kStepTokens},
                                        {kStepHidden, mlp_width, kStepTokens}},
                                       gpu),
              1e-12);
}

// The runtime runs no experts, other stacks are not it, and a host whose operations nobody measured
// is taken to be as it was: all take Megatron-LM's traffic.
TEST(ListedStep, IsOfDenseModelsOfThisRuntimeAlone) {
  Scenario scenario = job_on_h200(gpt_of_twelve_layers());
  EXPECT_TRUE(lists_operations(scenario));
  scenario.stack.memory_model = MemoryModel::kMegatron;
  EXPECT_FALSE(lists_operations(scenario));
  scenario.stack.memory_model = MemoryModel::kPtdp;
  scenario.stack.workspace = Bytes(0.0);
  EXPECT_FALSE(lists_operations(scenario));
  scenario.stack.workspace = Bytes(1.0);
  EXPECT_TRUE(lists_operations(scenario));
  scenario.job.model.num_experts = 8;
  EXPECT_FALSE(lists_operations(scenario));
}

// A host that takes a second to launch a kernel has launched all of them behind what it computes.
TEST(ListedStep, IsNoFasterThanTheHostLaunchesIt) {
  Scenario scenario = job_on_h200(gpt_of_twelve_layers());
  scenario.stack.host_time_per_kernel = Seconds(1.0);
  const LayerCosts apart = layer_costs(scenario, kAloneOnGpu);
  EXPECT_NEAR(apart.forward.total().value(), 8.0, 1e-9);
  EXPECT_NEAR(apart.backward.total().value(), 21.0, 1e-9);
  scenario.stack.fused_bias_gradients = true;  // one kernel each adds them
  EXPECT_NEAR(layer_costs(scenario, kAloneOnGpu).backward.total().value(), 19.0, 1e-9);
}

}  // namespace
}  // namespace ptdp
