#include "cost_model/analytic/transformer_layer.h"

#include <algorithm>

#include "cost_model/analytic/attention.h"
#include "cost_model/analytic/collectives.h"
#include "cost_model/analytic/context_parallel.h"
#include "cost_model/analytic/core_sharing.h"
#include "cost_model/analytic/element_wise.h"
#include "cost_model/analytic/expert_layer.h"
#include "cost_model/analytic/linear_layer.h"
#include "cost_model/analytic/memory_bound.h"
#include "cost_model/analytic/rank_parameters.h"
#include "cost_model/analytic/stage.h"
#include "cost_model/spec/rank_grid.h"

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
// What experts add in place of an MLP (Megatron-Core, all-to-all dispatcher, grouped products):
// router, top-k, two permutations and sorts each way, counts for the host.
constexpr LayerKernels kExpertKernels = {.forward = 30.0, .backward = 50.0, .weight_gradient = 3.0};

LayerKernels kernels_of(LayerKind kind, bool is_measured) {
  LayerKernels kernels = is_measured ? kOwnKernels : LayerKernels{};
  if (kind.has_experts) {
    kernels.forward += kExpertKernels.forward;
    kernels.backward += kExpertKernels.backward;
    kernels.weight_gradient += kExpertKernels.weight_gradient;
  }
  return kernels;
}

/// Exposed communication of one layer.
struct TensorParallelTime {
  Seconds forward;
  Seconds backward;
};

/// The linear layers of a transformer layer: the two whose outputs are split over tp, together
/// those whose inputs are (projection and 4h→h), and those that are not split.
struct LinearLayers {
  LinearTime qkv;
  LinearTime up;  ///< h→4h; of the shared experts, where there are some.
  LinearTime row;
  LinearTime whole;  ///< Compressions of latent attention.

  [[nodiscard]] LinearTime column() const { return qkv + up; }
};

/// Width of the dense MLP of a layer: of the shared experts where it has experts; 0: it has none.
int dense_mlp_width(const TransformerConfig& model, LayerKind kind) {
  return kind.has_experts ? model.moe_shared_expert_intermediate_size : model.ffn_hidden_size;
}

/// Features that enter the column-parallel layers of attention: hidden states, or of latent
/// attention what is compressed, and the queries' hidden states where they are not.
double attention_input_width(const TransformerConfig& model) {
  if (!has_latent_attention(model)) {
    return model.hidden_size;
  }
  return 1.0 * (model.q_lora_rank > 0 ? model.q_lora_rank : model.hidden_size) +
         model.kv_lora_rank + model.qk_pos_emb_head_dim;
}

class LinearLayersOf {
 public:
  LinearLayersOf(const Scenario& scenario, const ParallelConfig& config)
      : scenario_(scenario),
        model_(scenario.job.model),
        config_(config),
        tokens_(tokens_of_rank(model_, config)),
        own_tokens_(config.sequence_parallel ? tokens_ / config.tp : tokens_) {}

  [[nodiscard]] LinearLayers of_kind(LayerKind kind) const {
    const std::int64_t h = model_.hidden_size;
    const std::int64_t context = context_width(model_) / config_.tp;
    LinearLayers layers{.row = linear(tokens_, h, context)};
    if (has_latent_attention(model_)) {
      add_latent_attention(layers);
    } else {
      const std::int64_t heads = query_width(model_) + 2 * key_width(model_);
      layers.qkv = linear(tokens_, heads / config_.tp, h);
    }
    if (const std::int64_t width = dense_mlp_width(model_, kind); width > 0) {
      const std::int64_t up = (model_.gated_linear_unit ? 2 : 1) * width;
      layers.up = linear(tokens_, up / config_.tp, h);
      layers.row = layers.row + linear(tokens_, h, width / config_.tp);
    }
    return layers;
  }

 private:
  [[nodiscard]] LinearTime linear(std::int64_t tokens, std::int64_t outputs,
                                  std::int64_t inputs) const {
    return linear_time(tokens, outputs, inputs, scenario_.cluster.gpu, scenario_.stack);
  }

  void add_latent_attention(LinearLayers& layers) const {
    const std::int64_t h = model_.hidden_size;
    const std::int64_t queries = query_width(model_) / config_.tp;
    const std::int64_t keys_and_values = std::int64_t{1} * model_.num_attention_heads *
                                         (model_.qk_head_dim + model_.v_head_dim) / config_.tp;
    layers.whole = linear(own_tokens_, model_.kv_lora_rank + model_.qk_pos_emb_head_dim, h);
    layers.qkv = linear(tokens_, keys_and_values, model_.kv_lora_rank);
    if (model_.q_lora_rank > 0) {
      layers.whole = layers.whole + linear(own_tokens_, model_.q_lora_rank, h);
      layers.qkv = layers.qkv + linear(tokens_, queries, model_.q_lora_rank);
    } else {
      layers.qkv = layers.qkv + linear(tokens_, queries, h);
    }
  }

  const Scenario& scenario_;
  const TransformerConfig& model_;
  const ParallelConfig& config_;
  std::int64_t tokens_;
  std::int64_t own_tokens_;  ///< Of a sequence that is split over tp, where it is.
};

/// Whether collectives of a backward pass run behind its products. This project's runtime hides
/// them within an action: one with the weight gradients put off has nothing to hide them behind.
bool hides_collectives(const StackSpec& stack, const ParallelConfig& config) {
  return stack.tensor_parallel_overlap &&
         !(stack.memory_model == MemoryModel::kPtdp && splits_backward(config.schedule));
}

TensorParallelTime tensor_parallel_time(const Scenario& scenario, const ParallelConfig& config,
                                        const LinearLayers& linears, LayerKind kind) {
  if (config.tp == 1) {
    return {};
  }
  const TransformerConfig& model = scenario.job.model;
  const ClusterSpec& cluster = scenario.cluster;
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, cluster);
  const auto bytes_of = [&](double width) {
    return Bytes(element_bytes(scenario.stack.precision) *
                 static_cast<double>(tokens_of_rank(model, config)) * width);
  };
  // Of features `width` wide. Of what enters column-parallel layers, and of row-parallel outputs.
  const auto gather = [&](double width) {
    return config.sequence_parallel && width > 0.0
               ? all_gather_time(bytes_of(width), group, cluster)
               : Seconds(0.0);
  };
  const auto reduce = [&](double width) {
    if (width == 0.0) {
      return Seconds(0.0);
    }
    return config.sequence_parallel ? reduce_scatter_time(bytes_of(width), group, cluster)
                                    : all_reduce_time(bytes_of(width), group, cluster);
  };
  const double h = model.hidden_size;
  const double to_attention = attention_input_width(model);
  const double to_mlp = dense_mlp_width(model, kind) > 0 ? h : 0.0;

  // In the backward pass each of the two row-parallel layers gathers first (nothing to hide
  // behind), each column-parallel one gathers its input again and reduces last.
  TensorParallelTime time{.forward = (gather(to_attention) + reduce(h)) +
                                     (gather(to_mlp) + reduce(to_mlp))};
  if (!hides_collectives(scenario.stack, config)) {
    time.backward = (gather(h) + reduce(to_attention) + gather(to_attention)) +
                    (gather(to_mlp) + reduce(to_mlp) + gather(to_mlp));
    return time;
  }
  const auto behind = [&](Seconds communication, Seconds compute) {
    return exposed_behind(communication, compute, scenario.stack.overlap_slowdown);
  };
  time.backward = gather(h) + gather(to_mlp);
  const auto add_behind = [&](const LinearTime& products, Seconds reduced, Seconds gathered) {
    time.backward += behind(reduced, products.weight_gradient);
    time.backward += behind(gathered, products.input_gradient);
  };
  // What one layer's product has left hides nothing of the other's, which is not told apart for
  // other stacks.
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    add_behind(linears.qkv, reduce(to_attention), gather(to_attention));
    add_behind(linears.up, reduce(to_mlp), gather(to_mlp));
  } else {
    add_behind(linears.column(), reduce(to_attention) + reduce(to_mlp),
               gather(to_attention) + gather(to_mlp));
  }
  return time;
}

/// Element-wise work: operations as they were measured, or the traffic of Megatron-LM's.
ElementWiseTime element_wise_work(const Scenario& scenario, const ParallelConfig& config,
                                  LayerKind kind) {
  if (has_measured_operations(scenario)) {
    return layer_element_wise_time(scenario, config);
  }
  const StackSpec& stack = scenario.stack;
  TransformerConfig model = scenario.job.model;
  model.ffn_hidden_size = dense_mlp_width(model, kind);
  model.seq_length /= config.cp;
  const LayerTraffic traffic =
      layer_traffic(model, config.micro_batch_size, config.tp, config.sequence_parallel,
                    stack.fused_element_wise, element_bytes(stack.precision));
  return {.forward = memory_bound_time(traffic.forward, scenario.cluster.gpu),
          .backward = memory_bound_time(traffic.backward, scenario.cluster.gpu)};
}

/// None where the products accumulate by themselves.
Seconds layer_gradient_accumulation(const Scenario& scenario, const ParallelConfig& config,
                                    LayerKind kind) {
  if (scenario.stack.fused_gradient_accumulation) {
    return Seconds(0.0);
  }
  return gradient_accumulation_time(weights_of_rank(scenario.job.model, config, kind),
                                    scenario.cluster.gpu, scenario.stack);
}

/// Fills in `launch`: the kernels' own `latency`, or what the host needs to launch them beyond the
/// time that the device spends on them and on collectives.
void apply_launch(PassTime& pass, double num_kernels, Seconds latency, const StackSpec& stack) {
  const Seconds device = pass.compute() + pass.collectives();
  pass.launch = std::max(num_kernels * latency, num_kernels * stack.host_time_per_kernel - device);
}

}  // namespace

PassTime& PassTime::operator+=(const PassTime& other) {
  matmul += other.matmul;
  attention += other.attention;
  memory_bound += other.memory_bound;
  tensor_parallel += other.tensor_parallel;
  context_parallel += other.context_parallel;
  expert_parallel += other.expert_parallel;
  launch += other.launch;
  return *this;
}

PassTime operator*(PassTime pass, double factor) {
  return {.matmul = pass.matmul * factor,
          .attention = pass.attention * factor,
          .memory_bound = pass.memory_bound * factor,
          .tensor_parallel = pass.tensor_parallel * factor,
          .context_parallel = pass.context_parallel * factor,
          .expert_parallel = pass.expert_parallel * factor,
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

LayerCosts& LayerCosts::operator+=(const LayerCosts& other) {
  forward += other.forward;
  backward += other.backward;
  attention_core += other.attention_core;
  gradient_accumulation += other.gradient_accumulation;
  weight_gradient += other.weight_gradient;
  return *this;
}

LayerCosts operator*(const LayerCosts& layer, double factor) {
  return {.forward = layer.forward * factor,
          .backward = layer.backward * factor,
          .attention_core = layer.attention_core * factor,
          .gradient_accumulation = layer.gradient_accumulation * factor,
          .weight_gradient = layer.weight_gradient * factor};
}

double tensor_parallel_elements(const TransformerConfig& model, const ParallelConfig& config,
                                LayerKind kind) {
  const double mlp = dense_mlp_width(model, kind) > 0 ? model.hidden_size : 0.0;
  const double into_columns = attention_input_width(model) + mlp;
  const double out_of_rows = model.hidden_size + mlp;
  // An all-reduce sends each element twice, as an all-gather and a reduce-scatter together do.
  double forward = 2.0 * out_of_rows;
  double backward = 2.0 * into_columns;
  if (config.sequence_parallel) {
    forward = into_columns + out_of_rows;
    backward = out_of_rows + 2.0 * into_columns;  // inputs again, for weight gradients
  }
  const double again = config.recompute == Recompute::kFull ? forward : 0.0;
  const double share_sent = (config.tp - 1.0) / config.tp;
  return (forward + again + backward) * static_cast<double>(tokens_of_rank(model, config)) *
         share_sent;
}

LayerCosts layer_costs(const Scenario& scenario, const ParallelConfig& config, LayerKind kind) {
  const TransformerConfig model = with_kind(scenario.job.model, kind);
  const GpuSpec& gpu = scenario.cluster.gpu;
  const StackSpec& stack = scenario.stack;

  const ComputeFactors factors = compute_factors(config, scenario.cluster);

  LinearLayers linears = LinearLayersOf(scenario, config).of_kind(kind);
  for (LinearTime* linear : {&linears.qkv, &linears.up, &linears.row, &linears.whole}) {
    *linear = *linear * factors.matmul;
  }
  LinearTime all = linears.column() + linears.row + linears.whole;
  const GroupPlacement sharers =
      place_group(RankGrid(config), Dimension::kContext, scenario.cluster);
  const ContextParallelTime shared =
      context_parallel_time(model, context_split(config, stack), sharers, scenario.cluster, stack);
  const AttentionTime attention = {.forward = shared.attention.forward * factors.attention,
                                   .backward = shared.attention.backward * factors.attention};
  ElementWiseTime element_wise = element_wise_work(scenario, config, kind);
  const TensorParallelTime communication = tensor_parallel_time(scenario, config, linears, kind);
  ExpertCosts experts;
  if (kind.has_experts) {
    experts = expert_costs(scenario, config);
    all = all + experts.products * factors.matmul;
    element_wise.forward += experts.element_wise_forward;
    element_wise.backward += experts.element_wise_backward;
  }

  LayerCosts costs;
  costs.forward = {.matmul = all.forward,
                   .attention = attention.forward,
                   .memory_bound = element_wise.forward * factors.memory_bound,
                   .tensor_parallel = communication.forward,
                   .context_parallel = shared.exposed_forward,
                   .expert_parallel = experts.communication};
  costs.backward = {.matmul = all.input_gradient + all.weight_gradient,
                    .attention = attention.backward,
                    .memory_bound = element_wise.backward * factors.memory_bound,
                    .tensor_parallel = communication.backward,
                    .context_parallel = shared.exposed_backward,
                    .expert_parallel = experts.communication};
  for (PassTime* pass : {&costs.forward, &costs.backward}) {
    pass->tensor_parallel += factors.skew * pass->compute();
  }
  costs.weight_gradient = {.matmul = all.weight_gradient,
                           .memory_bound = element_wise.weight_gradient * factors.memory_bound};
  // Measured operations contain their latency, but not what the host takes to launch them.
  const bool is_measured = has_measured_operations(scenario);
  const Seconds latency = is_measured ? Seconds(0.0) : gpu.kernel_latency;
  const LayerKernels kernels = kernels_of(kind, is_measured);
  apply_launch(costs.forward, kernels.forward, latency, stack);
  apply_launch(costs.backward, kernels.backward, latency, stack);
  costs.weight_gradient.launch =
      costs.backward.launch * (kernels.weight_gradient / kernels.backward);
  costs.attention_core = {.attention = attention.forward,
                          .context_parallel = shared.exposed_forward};
  costs.gradient_accumulation = layer_gradient_accumulation(scenario, config, kind);
  return costs;
}

}  // namespace ptdp
