#include "cost_model/analytic/transformer_layer.h"

#include <algorithm>

#include "cost_model/analytic/attention.h"
#include "cost_model/analytic/collectives.h"
#include "cost_model/analytic/core_sharing.h"
#include "cost_model/analytic/element_wise.h"
#include "cost_model/analytic/gemm.h"
#include "cost_model/analytic/memory_bound.h"
#include "cost_model/analytic/stage.h"
#include "cost_model/spec/parameter_counts.h"

namespace ptdp {
namespace {

/// Launches of one layer.
struct LayerKernels {
  double forward = 30.0;
  double backward = 60.0;
  double weight_gradient = 4.0;  ///< Of these.
};
// Of this project's runtime on a GPU (runtime/layers, kernels/cuda): sums over rows take two.
constexpr LayerKernels kOwnKernels = {.forward = 11.0, .backward = 28.0, .weight_gradient = 12.0};

/// Exposed communication of one layer.
struct TensorParallelTime {
  Seconds forward;
  Seconds backward;
};

LinearTime operator+(const LinearTime& a, const LinearTime& b) {
  return {.forward = a.forward + b.forward,
          .input_gradient = a.input_gradient + b.input_gradient,
          .weight_gradient = a.weight_gradient + b.weight_gradient};
}

/// The linear layers of a transformer layer: the two whose outputs are split over tp, and together
/// those whose inputs are (projection and 4h→h).
struct LinearLayers {
  LinearTime qkv;
  LinearTime up;  ///< h→4h.
  LinearTime row;

  [[nodiscard]] LinearTime column() const { return qkv + up; }
};

LinearLayers linear_layers(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const GpuSpec& gpu = scenario.cluster.gpu;
  const std::int64_t tokens = std::int64_t{1} * config.micro_batch_size * model.seq_length;
  const std::int64_t h = model.hidden_size;
  const std::int64_t queries = query_width(model) / config.tp;
  const std::int64_t keys = key_width(model) / config.tp;
  const std::int64_t ffn = model.ffn_hidden_size / config.tp;
  const auto linear = [&](std::int64_t outputs, std::int64_t inputs) {
    return linear_time(tokens, outputs, inputs, gpu, scenario.stack);
  };
  return {.qkv = linear(queries + 2 * keys, h),
          .up = linear(mlp_up_width(model) / config.tp, h),
          .row = linear(h, queries) + linear(h, ffn)};
}

/// Whether collectives of a backward pass run behind its products. This project's runtime hides
/// them within an action: one with the weight gradients put off has nothing to hide them behind.
bool hides_collectives(const StackSpec& stack, const ParallelConfig& config) {
  return stack.tensor_parallel_overlap &&
         !(stack.memory_model == MemoryModel::kPtdp && splits_backward(config.schedule));
}

TensorParallelTime tensor_parallel_time(const Scenario& scenario, const ParallelConfig& config,
                                        const LinearLayers& linears) {
  if (config.tp == 1) {
    return {};
  }
  const TransformerConfig& model = scenario.job.model;
  const ClusterSpec& cluster = scenario.cluster;
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, cluster);
  const Bytes activations(1.0 * element_bytes(scenario.stack.precision) * config.micro_batch_size *
                          model.seq_length * model.hidden_size);
  const Seconds all_reduce = all_reduce_time(activations, group, cluster);
  const Seconds all_gather = all_gather_time(activations, group, cluster);

  // In the backward pass each of the two row-parallel layers gathers first (nothing to hide
  // behind), each column-parallel one gathers its input again and reduces last.
  const Seconds gathered = config.sequence_parallel ? all_gather : Seconds(0.0);
  const Seconds reduced =
      config.sequence_parallel ? reduce_scatter_time(activations, group, cluster) : all_reduce;

  TensorParallelTime time{.forward = 2.0 * (gathered + reduced)};
  if (!hides_collectives(scenario.stack, config)) {
    time.backward = 2.0 * (gathered + reduced + gathered);
    return time;
  }
  const auto behind = [&](Seconds communication, Seconds compute) {
    const Seconds hidden = std::min(communication, compute);
    return communication - hidden + scenario.stack.overlap_slowdown * hidden;
  };
  time.backward = 2.0 * gathered;
  const auto add_behind = [&](const LinearTime& products, double layers) {
    time.backward += behind(layers * reduced, products.weight_gradient);
    time.backward += behind(layers * gathered, products.input_gradient);
  };
  // What one layer's product has left hides nothing of the other's, which is not told apart for
  // other stacks.
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    add_behind(linears.qkv, 1.0);
    add_behind(linears.up, 1.0);
  } else {
    add_behind(linears.column(), 2.0);
  }
  return time;
}

/// Element-wise work: operations as they were measured, or the traffic of Megatron-LM's.
ElementWiseTime element_wise_work(const Scenario& scenario, const ParallelConfig& config) {
  if (has_measured_operations(scenario)) {
    return layer_element_wise_time(scenario, config);
  }
  const StackSpec& stack = scenario.stack;
  const LayerTraffic traffic = layer_traffic(scenario.job.model, config.micro_batch_size, config.tp,
                                             config.sequence_parallel, stack.fused_element_wise,
                                             element_bytes(stack.precision));
  return {.forward = memory_bound_time(traffic.forward, scenario.cluster.gpu),
          .backward = memory_bound_time(traffic.backward, scenario.cluster.gpu)};
}

LinearTime operator*(const LinearTime& time, double factor) {
  return {.forward = time.forward * factor,
          .input_gradient = time.input_gradient * factor,
          .weight_gradient = time.weight_gradient * factor};
}

/// None where the products accumulate by themselves.
Seconds layer_gradient_accumulation(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  if (scenario.stack.fused_gradient_accumulation) {
    return Seconds(0.0);
  }
  const double weights = layer_weights(model) / config.tp;
  return gradient_accumulation_time(weights, scenario.cluster.gpu, scenario.stack);
}

/// Fills in `launch`: the kernels' own `latency`, or what the host needs to launch them beyond the
/// time that the device spends on them and on collectives.
void apply_launch(PassTime& pass, double num_kernels, Seconds latency, const StackSpec& stack) {
  const Seconds device = pass.matmul + pass.attention + pass.memory_bound + pass.tensor_parallel;
  pass.launch = std::max(num_kernels * latency, num_kernels * stack.host_time_per_kernel - device);
}

}  // namespace

PassTime& PassTime::operator+=(const PassTime& other) {
  matmul += other.matmul;
  attention += other.attention;
  memory_bound += other.memory_bound;
  tensor_parallel += other.tensor_parallel;
  launch += other.launch;
  return *this;
}

PassTime operator*(PassTime pass, double factor) {
  return {.matmul = pass.matmul * factor,
          .attention = pass.attention * factor,
          .memory_bound = pass.memory_bound * factor,
          .tensor_parallel = pass.tensor_parallel * factor,
          .launch = pass.launch * factor};
}

PassTime LayerCosts::recompute(Recompute kind) const {
  switch (kind) {
    case Recompute::kNone:
      return {};
    case Recompute::kSelective:
      return attention_core;
    case Recompute::kFull:
      return forward;
  }
  return {};
}

LinearTime linear_time(std::int64_t tokens, std::int64_t outputs, std::int64_t inputs,
                       const GpuSpec& gpu, const StackSpec& stack) {
  const bool is_fused = stack.fused_gradient_accumulation;
  const int bytes = element_bytes(stack.precision);
  const int gradient_bytes =
      stack.gradient_bytes > bytes ? accumulator_bytes(stack.precision) : bytes;
  const auto product = [&](DeviceOperation operation, std::int64_t n, std::int64_t k) {
    return product_time(
        operation, {.m = tokens, .n = n, .k = k, .element_bytes = bytes, .output_bytes = bytes},
        gpu, stack.precision);
  };
  return {.forward = product(DeviceOperation::kForwardProduct, outputs, inputs),
          .input_gradient = product(DeviceOperation::kInputGradientProduct, inputs, outputs),
          .weight_gradient = product_time(DeviceOperation::kWeightGradientProduct,
                                          {.m = outputs,
                                           .n = inputs,
                                           .k = tokens,
                                           .element_bytes = bytes,
                                           .output_bytes = is_fused ? gradient_bytes : bytes,
                                           .accumulate = is_fused},
                                          gpu, stack.precision)};
}

Seconds gradient_accumulation_time(double weights, const GpuSpec& gpu, const StackSpec& stack) {
  return memory_bound_time(
      Bytes(weights * (element_bytes(stack.precision) + 2.0 * stack.gradient_bytes)), gpu);
}

LayerCosts layer_costs(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const GpuSpec& gpu = scenario.cluster.gpu;
  const StackSpec& stack = scenario.stack;

  const ComputeFactors factors = compute_factors(config, scenario.cluster);

  LinearLayers linears = linear_layers(scenario, config);
  for (LinearTime* linear : {&linears.qkv, &linears.up, &linears.row}) {
    *linear = *linear * factors.matmul;
  }
  const LinearTime all = linears.column() + linears.row;
  AttentionTime attention = attention_time(model, config.micro_batch_size, config.tp, gpu, stack);
  attention.forward = attention.forward * factors.attention;
  attention.backward = attention.backward * factors.attention;
  const ElementWiseTime element_wise = element_wise_work(scenario, config);
  const TensorParallelTime communication = tensor_parallel_time(scenario, config, linears);

  LayerCosts costs;
  costs.forward = {.matmul = all.forward,
                   .attention = attention.forward,
                   .memory_bound = element_wise.forward * factors.memory_bound,
                   .tensor_parallel = communication.forward};
  costs.backward = {.matmul = all.input_gradient + all.weight_gradient,
                    .attention = attention.backward,
                    .memory_bound = element_wise.backward * factors.memory_bound,
                    .tensor_parallel = communication.backward};
  for (PassTime* pass : {&costs.forward, &costs.backward}) {
    pass->tensor_parallel += factors.skew * (pass->matmul + pass->attention + pass->memory_bound);
  }
  costs.weight_gradient = {.matmul = all.weight_gradient,
                           .memory_bound = element_wise.weight_gradient * factors.memory_bound};
  // Measured operations contain their latency, but not what the host takes to launch them.
  const bool is_measured = has_measured_operations(scenario);
  const Seconds latency = is_measured ? Seconds(0.0) : gpu.kernel_latency;
  const LayerKernels kernels = is_measured ? kOwnKernels : LayerKernels{};
  apply_launch(costs.forward, kernels.forward, latency, stack);
  apply_launch(costs.backward, kernels.backward, latency, stack);
  costs.weight_gradient.launch =
      costs.backward.launch * (kernels.weight_gradient / kernels.backward);
  costs.attention_core = {.attention = attention.forward};
  costs.gradient_accumulation = layer_gradient_accumulation(scenario, config);
  return costs;
}

}  // namespace ptdp
