// Times the linear layers of a layer, and counts its kernels.
#include "cost_model/layer/layer_kernels.h"

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/element_wise_operations.h"
#include "cost_model/layer/expert_biases.h"
#include "cost_model/operations/attention.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

/// Products of a layer's forward pass, and of each kind of gradient.
constexpr double kProducts = 4.0;
/// Kernels of attention's backward pass, which make 28 of a whole layer of GPT-2.
constexpr double kAttentionBackwardKernels = 5.0;

/// Returns the kernels of an element-wise operation. Sums over rows take two. What a product does
/// takes none, but for one that adds a sum of biases to what is there.
double kernels_of(DeviceOperation operation) {
  if (operation == DeviceOperation::kGeluEpilogue) {
    return 0.0;
  }
  return operation == DeviceOperation::kBiasGradient ||
                 operation == DeviceOperation::kLayerNormBackward ||
                 operation == DeviceOperation::kLayerNormBackwardBias ||
                 operation == DeviceOperation::kRmsNormBackward ||
                 operation == DeviceOperation::kRmsNormBackwardBias
             ? 2.0
             : 1.0;
}

/// Kernels that experts add in place of an MLP in a forward pass, without their products.
constexpr double kRoutingForward = 28.0;
/// Kernels that experts add in place of an MLP in a backward pass, without their products.
constexpr double kRoutingBackward = 46.0;
constexpr double kExpertProducts = 2.0;  // per forward pass, and per kind of gradient
/// Products of experts whose times are modeled one by one: the router, and all experts' together.
constexpr double kModeledProducts = 1.0 + kExpertProducts;
constexpr double kPaddingKernels = 3.0;  // rows, weights of visits, and cutting
constexpr double kProductStreams = 4.0;
/// The part of kRoutingForward that chooses experts and counts tokens.
constexpr double kGraphedForward = 16.0;
/// The part of kRoutingBackward that chooses experts and counts tokens.
constexpr double kGraphedBackward = 12.0;

/// Returns the number of experts of a rank that have products of their own: all, or 1 for all
/// together where the stack fuses them.
double separate_experts(const Scenario& scenario, const ParallelConfig& config) {
  return fuses_expert_activation(scenario) ? 1.0 : experts_of_rank(scenario.job.model, config);
}

/// Adds the products of all experts of a rank to `pass`, `kinds` for each. On the device several
/// streams run them side by side.
void add_products(PassKernels& pass, double kinds, double experts) {
  pass.on_device += kinds * std::ceil(experts / kProductStreams);
  pass.by_host += kinds * experts;
}

/// Kernels that relative positions add to a forward pass: two products, two sums with queries, the
/// shift of scores and their sum.
constexpr double kPositionsForward = 6.0;
/// Kernels that relative positions add to a backward pass: three products, the sums of gradients of
/// queries and of two vectors, and the shift back of scores with its fill.
constexpr double kPositionsBackward = 8.0;
constexpr double kPositionProducts = 1.0;  // forward, and for weight gradients

// Kernels of rotary positions of queries and of keys, one by one, beyond one for both.
constexpr double kSeparateRotaryForward = 22.0;
constexpr double kSeparateRotaryBackward = 12.0;

/// Returns the products of the linear layers of a layer's forward pass, without its experts.
double linear_products(const TransformerConfig& model, LayerKind kind) {
  const double attention = !has_latent_attention(model) ? 2.0 : model.q_lora_rank > 0 ? 5.0 : 4.0;
  return attention + (dense_mlp_width(model, kind) > 0 ? 2.0 : 0.0);
}

}  // namespace

double starts_in_products(double starts, const GpuSpec& gpu) {
  return gpu.matmul_start.value() > 0.0 ? starts : 0.0;
}

double starts_in_casts(double kernels, const GpuSpec& gpu) {
  return gpu.cast_start ? kernels : 0.0;
}

int dense_mlp_width(const TransformerConfig& model, LayerKind kind) {
  return kind.has_experts ? model.moe_shared_expert_intermediate_size : model.ffn_hidden_size;
}

double attention_input_width(const TransformerConfig& model) {
  if (!has_latent_attention(model)) {
    return model.hidden_size;
  }
  return 1.0 * (model.q_lora_rank > 0 ? model.q_lora_rank : model.hidden_size) +
         model.kv_lora_rank + model.qk_pos_emb_head_dim;
}

std::vector<SizedLinear> sized_linears(const TransformerConfig& model, const ParallelConfig& config,
                                       LayerKind kind) {
  const std::int64_t h = model.hidden_size;
  const std::int64_t tokens = tokens_of_rank(model, config);
  const std::int64_t queries = query_width(model) / config.tp;
  std::vector<SizedLinear> linears;
  if (has_latent_attention(model)) {
    // Tokens of the part of the sequence that falls to this rank, where it is split over tp.
    const std::int64_t own = config.sequence_parallel ? tokens / config.tp : tokens;
    const std::int64_t keys_and_values = std::int64_t{1} * model.num_attention_heads *
                                         (model.qk_head_dim + model.v_head_dim) / config.tp;
    linears = {{"keys and values, compressed",
                &LinearLayers::whole,
                {own, model.kv_lora_rank + model.qk_pos_emb_head_dim, h}},
               {"keys and values, decompressed",
                &LinearLayers::qkv,
                {tokens, keys_and_values, model.kv_lora_rank}}};
    if (model.q_lora_rank > 0) {
      linears.push_back({"queries, compressed", &LinearLayers::whole, {own, model.q_lora_rank, h}});
      linears.push_back(
          {"queries, decompressed", &LinearLayers::qkv, {tokens, queries, model.q_lora_rank}});
    } else {
      linears.push_back({"queries", &LinearLayers::qkv, {tokens, queries, h}});
    }
  } else {
    const std::int64_t heads = query_width(model) + 2 * key_width(model);
    linears.push_back({"QKV", &LinearLayers::qkv, {tokens, heads / config.tp, h}});
  }
  if (has_relative_positions(model)) {
    // Projects each distance in a sequence once, however many sequences a microbatch has.
    linears.push_back({.name = "keys of positions",
                       .part = &LinearLayers::positions,
                       .size = {model.seq_length, key_width(model) / config.tp, h},
                       .has_input_gradient = false});
  }
  linears.push_back({"projection of attention",
                     &LinearLayers::projection,
                     {tokens, h, context_width(model) / config.tp}});
  if (const std::int64_t width = dense_mlp_width(model, kind); width > 0) {
    const std::int64_t up = (model.gated_linear_unit ? 2 : 1) * width;
    linears.push_back({kind.has_experts ? "first of shared experts" : "first of the MLP",
                       &LinearLayers::up,
                       {tokens, up / config.tp, h}});
    linears.push_back({kind.has_experts ? "second of shared experts" : "second of the MLP",
                       &LinearLayers::down,
                       {tokens, h, width / config.tp}});
  }
  return linears;
}

LinearLayers linear_layers(const Scenario& scenario, const ParallelConfig& config, LayerKind kind,
                           std::int64_t chunks) {
  const GpuSpec& gpu = scenario.cluster.gpu;
  const double factor = compute_factors(config, scenario.cluster).matmul;
  LinearLayers layers;
  for (const SizedLinear& each : sized_linears(scenario.job.model, config, kind)) {
    const auto& [tokens, outputs, inputs] = each.size;
    const std::int64_t of_chunk = std::max(tokens / chunks, std::int64_t{1});
    LinearTime time =
        chunks == 1 ? linear_time(tokens, outputs, inputs, gpu, scenario.stack, Fp8Use::kByRecipe)
                    : grouped_linear_time(chunks, of_chunk, outputs, inputs, gpu, scenario.stack);
    if (!each.has_input_gradient) {
      time.input_gradient = Seconds(0.0);
    }
    layers.*each.part += time * factor;
  }
  return layers;
}

LayerKernels kernels_without_experts(const Scenario& scenario, const ParallelConfig& config) {
  LayerKernels kernels;
  if (!lists_operations(scenario)) {
    kernels.weight_gradient = 4.0;
    kernels.forward.launch(30.0);
    kernels.backward.launch(60.0);
    if (has_relative_positions(scenario.job.model)) {
      kernels.weight_gradient += kPositionProducts;
      kernels.forward.launch(kPositionsForward);
      kernels.backward.launch(kPositionsBackward);
    }
    if (applies_rotary_apart(scenario.job.model, scenario.stack)) {
      kernels.forward.launch(kSeparateRotaryForward);
      kernels.backward.launch(kSeparateRotaryBackward);
    }
    return kernels;
  }
  kernels.weight_gradient = kProducts;
  kernels.forward.launch(kProducts + 1.0);
  kernels.backward.launch(2.0 * kProducts + kAttentionBackwardKernels);
  for (const ElementWiseOperation& each :
       layer_operations(scenario.job.model, config, fused_epilogues(scenario.stack))) {
    const double count = kernels_of(each.operation);
    PassKernels& pass = each.pass == OperationPass::kForward ? kernels.forward : kernels.backward;
    pass.launch(count);
    pass.with_start += is_epilogue(each.operation) ? 0.0 : 1.0;
    kernels.weight_gradient += each.pass == OperationPass::kWeightGradient ? count : 0.0;
  }
  return kernels;
}

LayerKernels expert_kernels(const Scenario& scenario, const ParallelConfig& config) {
  const double experts = separate_experts(scenario, config);
  LayerKernels kernels{.weight_gradient =
                           1.0 + kExpertProducts * std::ceil(experts / kProductStreams)};
  kernels.forward.launch(kRoutingForward);
  kernels.backward.launch(kRoutingBackward);
  add_products(kernels.forward, kExpertProducts, experts);
  add_products(kernels.backward, 2.0 * kExpertProducts, experts);
  const ExpertBiasKernels biases = expert_bias_kernels(scenario.job.model, scenario.stack,
                                                       experts_of_rank(scenario.job.model, config));
  const double padding = pads_rows(scenario) ? kPaddingKernels : 0.0;
  kernels.forward.launch(biases.forward + padding);
  kernels.backward.launch(biases.backward + padding);
  const GpuSpec& gpu = scenario.cluster.gpu;
  kernels.forward.with_start = starts_in_products(kModeledProducts, gpu);
  kernels.backward.with_start = starts_in_products(2.0 * kModeledProducts, gpu);
  if (scenario.stack.cuda_graphs >= CudaGraphs::kRouter) {
    kernels.forward.by_host -= kGraphedForward;
    kernels.backward.by_host -= kGraphedBackward;
  }
  return kernels;
}

LayerKernels layer_kernels(const Scenario& scenario, const ParallelConfig& config, LayerKind kind,
                           const LayerCasts& casts) {
  const CudaGraphs graphs = scenario.stack.cuda_graphs;
  LayerKernels kernels = kernels_without_experts(scenario, config);
  if (kind.has_experts) {
    if (graphs >= CudaGraphs::kAttentionAndRouter) {
      kernels.forward.by_host = kernels.backward.by_host = 0.0;
    }
    const LayerKernels of_experts = expert_kernels(scenario, config);
    kernels.forward += of_experts.forward;
    kernels.backward += of_experts.backward;
    kernels.weight_gradient += of_experts.weight_gradient;
  }
  const GpuSpec& gpu = scenario.cluster.gpu;
  kernels.forward.launch(casts.forward_kernels, starts_in_casts(casts.forward_kernels, gpu));
  kernels.backward.launch(casts.backward_kernels, starts_in_casts(casts.backward_kernels, gpu));
  const TransformerConfig& model = scenario.job.model;
  const double products = linear_products(model, kind);
  const double of_attention = is_unfused(model, scenario.stack) ? 2.0 : 0.0;
  // The keys of positions, and the products of queries with them.
  const double of_positions = has_relative_positions(model) ? kPositionProducts : 0.0;
  kernels.forward.with_start +=
      starts_in_products(products + of_attention + 2.0 * of_positions, gpu);
  kernels.backward.with_start +=
      starts_in_products(2.0 * products + 2.0 * of_attention + 3.0 * of_positions, gpu);
  if (graphs == CudaGraphs::kStep) {
    kernels.forward.by_host = kernels.backward.by_host = 0.0;
  }
  return kernels;
}

bool pads_rows(const Scenario& scenario) {
  const StackSpec& stack = scenario.stack;
  return stack.pads_expert_rows && stack.fp8 &&
         stack.expert_dispatch != ExpertDispatch::kHierarchical &&
         !fuses_expert_activation(scenario);
}

bool fuses_expert_activation(const Scenario& scenario) {
  return scenario.stack.fused_expert_activation && scenario.stack.fp8 == Fp8Scaling::kMx &&
         scenario.job.model.gated_linear_unit;
}

Seconds host_time_per_kernel(const Scenario& scenario) {
  return scenario.stack.host_time_per_kernel * scenario.cluster.launch_slowdown;
}

}  // namespace ptdp
