// Puts the costs of a layer together from its products, attention, traffic, collectives and
// launches.
#include "cost_model/layer/transformer_layer.h"

#include <algorithm>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/context_parallel.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/layer_kernels.h"
#include "cost_model/layer/layer_parameters.h"
#include "cost_model/layer/measured_layers.h"
#include "cost_model/layer/product_overlap.h"
#include "cost_model/layer/selective_recompute.h"
#include "cost_model/layer/sequence_copies.h"
#include "cost_model/layer/split_key_heads.h"
#include "cost_model/layer/split_norms.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/attention.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kUnrepeatedKernels = 2.0;  // a product and a sum
constexpr double kResidualPasses = 3.0;

/// Whether recomputing a layer of `kind` ends before its last product. With dropout behind that
/// product it does not: the mask is asked for. With experts it is taken not to, since what autograd
/// keeps of their outputs, which are weighed and put back in order, is not known.
bool stops_before_end(const TransformerConfig& model, const StackSpec& stack, LayerKind kind) {
  return stack.recompute_stops_early && !kind.has_experts && !has_dropout(model);
}

/// Tensor-parallel communication of one layer that its passes wait for.
struct TensorParallelTime {
  ForwardCollectives forward;
  Seconds backward;
};

/// Whether collectives of a backward pass run behind its products. This project's runtime hides
/// them within an action, so a backward pass with the weight gradients put off has nothing to hide
/// them behind.
bool hides_collectives(const StackSpec& stack, const ParallelConfig& config) {
  return (stack.tensor_parallel_overlap || stack.tp_comm_overlap == TpCommOverlap::kUserBuffers) &&
         !(stack.memory_model == MemoryModel::kPtdp && traits_of(config.schedule).splits_backward);
}

/// Computes the communication of tensor parallelism that the passes of a layer wait for. `linears`
/// are the times of its linear layers.
TensorParallelTime tensor_parallel_time(const Scenario& scenario, const ParallelConfig& config,
                                        const LinearLayers& linears, LayerKind kind) {
  if (config.tp == 1) {
    return {};
  }
  const TransformerConfig& model = scenario.job.model;
  const ClusterSpec& cluster = scenario.cluster;
  const GroupPlacement group = place_group(RankGrid(config), Dimension::kTensor, cluster);
  const auto tokens = static_cast<double>(tokens_of_rank(model, config));
  const auto bytes_of = [&](double width) {
    return Bytes(element_bytes(scenario.stack.precision) * tokens * width);
  };
  const auto gathered_bytes_of = [&](double width) {
    return Bytes(gathered_activation_bytes(scenario.stack) * tokens * width);
  };
  // `gather` and `reduce` take features that are `width` wide: what enters column-parallel layers,
  // and what row-parallel layers put out.
  const auto gather = [&](double width) {
    return config.sequence_parallel && width > 0.0
               ? all_gather_time(gathered_bytes_of(width), group, cluster)
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

  // In the backward pass each of the two row-parallel layers gathers first, with nothing to hide
  // behind except, in chunks, its own product. Each column-parallel one gathers its input again and
  // reduces last.
  TensorParallelTime time{.forward = {.into_attention = gather(to_attention),
                                      .out_of_attention = reduce(h),
                                      .into_mlp = gather(to_mlp),
                                      .out_of_mlp = reduce(to_mlp)}};
  if (const Bytes sums = norm_sums(model, config, scenario.stack); sums.value() > 0.0) {
    time.forward.of_norms = all_reduce_time(sums, group, cluster);
  }
  Seconds for_heads = time.forward.of_norms;
  if (const double heads =
          gathered_head_width(model, config.tp, scenario.stack.can_run.split_key_heads);
      heads > 0.0) {
    time.forward.of_heads = all_gather_time(bytes_of(heads), group, cluster);
    for_heads += reduce_scatter_time(bytes_of(heads), group, cluster);
  }
  Seconds row_gathers = gather(h) + gather(to_mlp);
  if (runs_within_products(scenario.stack, config, group)) {
    const ProductOverlap overlap(scenario, group);
    const LinearLayers gathered = linear_layers(scenario, config, kind, overlap.gathered_chunks());
    const LinearLayers reduced = linear_layers(scenario, config, kind, overlap.scattered_chunks());
    const auto with_gather = [&](double width, const Seconds LinearTime::*pass,
                                 const LinearTime LinearLayers::*layer) {
      return overlap.of_gather(gathered_bytes_of(width), linears.*layer.*pass,
                               gathered.*layer.*pass);
    };
    const auto with_scatter = [&](double width, const LinearTime LinearLayers::*layer) {
      return overlap.of_scatter(bytes_of(width), (linears.*layer).forward,
                                (reduced.*layer).forward);
    };
    time.forward = {
        .into_attention = with_gather(to_attention, &LinearTime::forward, &LinearLayers::qkv),
        .of_heads = time.forward.of_heads,
        .of_norms = time.forward.of_norms,
        .out_of_attention = with_scatter(h, &LinearLayers::projection),
        .into_mlp = with_gather(to_mlp, &LinearTime::forward, &LinearLayers::up),
        .out_of_mlp = with_scatter(to_mlp, &LinearLayers::down)};
    row_gathers = with_gather(h, &LinearTime::input_gradient, &LinearLayers::projection) +
                  with_gather(to_mlp, &LinearTime::input_gradient, &LinearLayers::down);
  }
  const auto gather_again = [&](double width) {
    return scenario.stack.keeps_gathered_inputs ? Seconds(0.0) : gather(width);
  };
  if (!hides_collectives(scenario.stack, config)) {
    time.backward = (gather(h) + reduce(to_attention) + gather_again(to_attention)) +
                    (gather(to_mlp) + reduce(to_mlp) + gather_again(to_mlp)) + for_heads;
    return time;
  }
  const auto behind = [&](Seconds communication, Seconds compute) {
    return exposed_behind(communication, compute, scenario.stack.overlap_slowdown);
  };
  time.backward = row_gathers + for_heads;
  const auto add_behind = [&](const LinearTime& products, Seconds reduced, Seconds gathered) {
    time.backward += behind(reduced, products.weight_gradient);
    time.backward += behind(gathered, products.input_gradient);
  };
  // Time that is left of one layer's product hides nothing of the other layer's communication. For
  // other stacks than this project's runtime the two layers are not told apart.
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    add_behind(linears.qkv, reduce(to_attention), gather_again(to_attention));
    add_behind(linears.up, reduce(to_mlp), gather_again(to_mlp));
  } else {
    add_behind(linears.column(), reduce(to_attention) + reduce(to_mlp),
               gather_again(to_attention) + gather_again(to_mlp));
  }
  return time;
}

/// Returns the time of a layer's element-wise work: of this runtime's operations, or of the traffic
/// of Megatron-LM's.
ElementWiseTime element_wise_work(const Scenario& scenario, const ParallelConfig& config,
                                  LayerKind kind) {
  if (lists_operations(scenario)) {
    return layer_element_wise_time(scenario, config);
  }
  const ElementWiseTraffic traffic = element_wise_traffic(scenario, config, kind);
  const GpuSpec& gpu = scenario.cluster.gpu;
  return {.forward = memory_bound_time(traffic.forward, gpu) +
                     look_up_time(traffic.looked_up_forward, gpu),
          .backward = memory_bound_time(traffic.backward, gpu) +
                      look_up_time(traffic.looked_up_backward, gpu)};
}

/// Returns the time to add a layer's weight gradients to those of earlier microbatches; 0 where the
/// products accumulate by themselves.
Seconds layer_gradient_accumulation(const Scenario& scenario, const ParallelConfig& config,
                                    LayerKind kind) {
  if (scenario.stack.fused_gradient_accumulation) {
    return Seconds(0.0);
  }
  return gradient_accumulation_time(weights_of_rank(scenario.job.model, config, kind),
                                    scenario.cluster.gpu, scenario.stack);
}

/// What a kernel takes beside its work.
struct KernelStart {
  Seconds latency;  ///< On the device, where its time does not contain it.
  Seconds host;     ///< On the host that launches it.

  friend KernelStart operator*(const KernelStart& start, double factor) {
    return {.latency = start.latency * factor, .host = start.host * factor};
  }
};

/// Fills in `pass.launch` with the latency of kernels whose times do not contain it. Where it is
/// longer, it is the time that the host needs to launch all kernels beyond what the device spends
/// on them and on collectives.
void apply_launch(PassTime& pass, const PassKernels& kernels, const KernelStart& start) {
  const Seconds device = pass.compute() + pass.collectives();
  const Seconds host = kernels.by_host * start.host;
  pass.launch = std::max((kernels.on_device - kernels.with_start) * start.latency, host - device);
}

/// Multiplies what a pass computes.
void scale_compute(PassTime& pass, double factor) {
  pass.matmul = pass.matmul * factor;
  pass.attention = pass.attention * factor;
  pass.memory_bound = pass.memory_bound * factor;
}

/// Returns what measured layers of this kind took over what is modeled; 1 where none was measured.
LayerFactor measured_factor(const Scenario& scenario, const ParallelConfig& config,
                            LayerKind kind) {
  const TransformerConfig& model = scenario.job.model;
  const bool is_measured = !kind.has_experts && !has_latent_attention(model);
  return is_measured ? layer_factor(scenario.cluster.gpu,
                                    static_cast<double>(tokens_of_rank(model, config)), config.tp)
                     : LayerFactor{};
}

/// Reduces the dispatch in each pass of `costs` to what the compute of the other pass, of another
/// microbatch, does not hide. Compute loses `slowdown` of the hidden time. Sets hidden_dispatch to
/// the difference.
void hide_dispatch(LayerCosts& costs, double slowdown) {
  const Seconds all = costs.forward.expert_parallel + costs.backward.expert_parallel;
  costs.forward.expert_parallel =
      exposed_behind(costs.forward.expert_parallel, costs.backward.compute(), slowdown);
  costs.backward.expert_parallel =
      exposed_behind(costs.backward.expert_parallel, costs.forward.compute(), slowdown);
  costs.hidden_dispatch = all - (costs.forward.expert_parallel + costs.backward.expert_parallel);
}

}  // namespace

PassTime LayerCosts::recompute(Recompute kind) const {
  switch (repeats(kind)) {
    case Repeats::kNothing:
      return {};
    case Repeats::kModules:
      return selective;
    case Repeats::kLayer: {
      PassTime again = forward;
      return again += unrepeated * -1.0;
    }
  }
  return {};
}

LayerCosts& LayerCosts::operator+=(const LayerCosts& other) {
  forward += other.forward;
  backward += other.backward;
  selective += other.selective;
  unrepeated += other.unrepeated;
  gradient_accumulation += other.gradient_accumulation;
  weight_gradient += other.weight_gradient;
  hidden_dispatch += other.hidden_dispatch;
  return *this;
}

LayerCosts operator*(const LayerCosts& layer, double factor) {
  return {.forward = layer.forward * factor,
          .backward = layer.backward * factor,
          .selective = layer.selective * factor,
          .unrepeated = layer.unrepeated * factor,
          .gradient_accumulation = layer.gradient_accumulation * factor,
          .weight_gradient = layer.weight_gradient * factor,
          .hidden_dispatch = layer.hidden_dispatch * factor};
}

double tensor_parallel_elements(const TransformerConfig& model, const ParallelConfig& config,
                                LayerKind kind, double gathered, double times_again,
                                double gathered_heads) {
  const double mlp = dense_mlp_width(model, kind) > 0 ? model.hidden_size : 0.0;
  const double into_columns = attention_input_width(model) + mlp;
  const double out_of_rows = model.hidden_size + mlp;
  // An all-reduce sends each element twice, as an all-gather and a reduce-scatter together do.
  double forward = 2.0 * out_of_rows;
  double backward = 2.0 * into_columns;
  if (config.sequence_parallel) {
    forward = gathered * into_columns + out_of_rows;
    // Inputs are gathered again for weight gradients.
    backward = gathered * (out_of_rows + times_again * into_columns) + into_columns;
  }
  forward += gathered_heads;
  backward += gathered_heads;
  const double again = repeats(config.recompute) == Repeats::kLayer ? forward
                       : repeats(config.recompute) == Repeats::kModules
                           ? repeated_width(model, config, kind, gathered)
                           : 0.0;
  const double share_sent = (config.tp - 1.0) / config.tp;
  return (forward + again + backward) * static_cast<double>(tokens_of_rank(model, config)) *
         share_sent;
}

double unrepeated_elements(const TransformerConfig& model, const ParallelConfig& config,
                           LayerKind kind, const StackSpec& stack) {
  if (repeats(config.recompute) != Repeats::kLayer || !stops_before_end(model, stack, kind)) {
    return 0.0;
  }
  return (config.sequence_parallel ? 1.0 : 2.0) * model.hidden_size *
         static_cast<double>(tokens_of_rank(model, config)) * (config.tp - 1.0) / config.tp;
}

ElementWiseTraffic element_wise_traffic(const Scenario& scenario, const ParallelConfig& config,
                                        LayerKind kind) {
  const StackSpec& stack = scenario.stack;
  TransformerConfig model = scenario.job.model;
  model.ffn_hidden_size = dense_mlp_width(model, kind);
  model.seq_length /= config.cp;
  const LayerTraffic traffic =
      layer_traffic(model, config.micro_batch_size, config.tp, config.sequence_parallel, stack);
  const SplitHeadTraffic heads = split_head_traffic(scenario.job.model, config, stack);
  const SplitNormTraffic norms = split_norm_traffic(scenario.job.model, config, stack);
  const SequenceCopies copies = sequence_copies(scenario, config, kind);
  return {.forward = traffic.forward + heads.forward + norms.forward + copies.forward(),
          .backward = traffic.backward + heads.backward + norms.backward + copies.backward,
          .looked_up_forward = traffic.looked_up_forward,
          .looked_up_backward = traffic.looked_up_backward};
}

LayerCosts layer_costs(const Scenario& scenario, const ParallelConfig& config, LayerKind kind) {
  const TransformerConfig model = with_kind(scenario.job.model, kind);
  const GpuSpec& gpu = scenario.cluster.gpu;
  const StackSpec& stack = scenario.stack;

  const ComputeFactors factors = compute_factors(config, scenario.cluster);

  const LinearLayers linears = linear_layers(scenario, config, kind);
  LinearTime all = linears.total();
  const GroupPlacement sharers =
      place_group(RankGrid(config), Dimension::kContext, scenario.cluster);
  const ContextParallelTime shared = context_parallel_time(model, context_sharing(config, stack),
                                                           sharers, scenario.cluster, stack);
  const AttentionTime attention = {.forward = shared.attention.forward * factors.attention,
                                   .backward = shared.attention.backward * factors.attention};
  ElementWiseTime element_wise = element_wise_work(scenario, config, kind);
  const TensorParallelTime communication = tensor_parallel_time(scenario, config, linears, kind);
  ExpertCosts experts;
  if (kind.has_experts) {
    experts = expert_costs(scenario, config);
    experts.products = experts.products * factors.matmul;
    all = all + experts.products;
    element_wise.forward += experts.element_wise_forward;
    element_wise.backward += experts.element_wise_backward;
  }

  const LayerCasts casts = layer_casts(scenario, config, kind);
  const CastTimes cast = cast_times(casts, scenario);
  element_wise.forward += cast.forward;
  element_wise.backward += cast.backward;

  LayerCosts costs;
  costs.forward = {.matmul = all.forward + element_wise.forward_epilogues * factors.memory_bound,
                   .attention = attention.forward,
                   .memory_bound = element_wise.forward * factors.memory_bound,
                   .tensor_parallel = communication.forward.total(),
                   .context_parallel = shared.exposed_forward,
                   .expert_parallel = experts.communication};
  costs.backward = {.matmul = all.input_gradient + all.weight_gradient +
                              element_wise.backward_epilogues * factors.memory_bound,
                    .attention = attention.backward,
                    .memory_bound = element_wise.backward * factors.memory_bound,
                    .tensor_parallel = communication.backward,
                    .context_parallel = shared.exposed_backward,
                    .expert_parallel = experts.communication};
  for (PassTime* pass : {&costs.forward, &costs.backward}) {
    pass->tensor_parallel += factors.skew * pass->compute();
  }
  if (kind.has_experts && hides_dispatch(scenario, config)) {
    hide_dispatch(costs, stack.overlap_slowdown);
  }
  costs.weight_gradient = {.matmul = all.weight_gradient,
                           .memory_bound = element_wise.weight_gradient * factors.memory_bound};
  const LayerFactor factor = measured_factor(scenario, config, kind);
  scale_compute(costs.forward, factor.forward);
  scale_compute(costs.backward, factor.backward);
  scale_compute(costs.weight_gradient, factor.backward);
  // Measured operations contain their latency, but not what the host takes to launch them.
  const KernelStart start = {
      .latency = has_measured_operations(scenario) ? Seconds(0.0) : gpu.kernel_latency,
      .host = host_time_per_kernel(scenario)};
  const LayerKernels kernels = layer_kernels(scenario, config, kind, casts);
  apply_launch(costs.forward, kernels.forward, start * factor.forward);
  apply_launch(costs.backward, kernels.backward, start * factor.backward);
  costs.weight_gradient.launch =
      costs.backward.launch * (kernels.weight_gradient / kernels.backward.on_device);
  const SequenceCopies copies = sequence_copies(scenario, config, kind);
  RepeatedWork repeated =
      repeated_work(scenario, config, kind,
                    {.products = linears,
                     .experts = experts,
                     .collectives = communication.forward,
                     .attention_core = {.attention = attention.forward,
                                        .context_parallel = shared.exposed_forward},
                     .element_wise = element_wise.forward - experts.element_wise_forward -
                                     memory_bound_time(copies.scatters(), gpu),
                     .kernels = kernels_without_experts(scenario, config).forward.on_device});
  if (repeated.kernels.on_device > 0.0) {
    if (stack.cuda_graphs == CudaGraphs::kStep) {
      repeated.kernels.by_host = 0.0;
    }
    scale_compute(repeated.time, factor.forward);
    apply_launch(repeated.time, repeated.kernels, start * factor.forward);
  }
  costs.selective = repeated.time;
  if (stops_before_end(model, stack, kind)) {
    const Bytes rows(1.0 * element_bytes(stack.precision) * model.hidden_size *
                     static_cast<double>(tokens_of_rank(model, config)) /
                     (config.sequence_parallel ? config.tp : 1));
    costs.unrepeated = {
        .matmul = linears.down.forward,
        .memory_bound = memory_bound_time(kResidualPasses * rows + copies.out_of_mlp, gpu) *
                        factors.memory_bound,
        .tensor_parallel = communication.forward.out_of_mlp};
    costs.unrepeated.tensor_parallel += factors.skew * costs.unrepeated.compute();
    scale_compute(costs.unrepeated, factor.forward);
    PassTime again = costs.forward;
    again += costs.unrepeated * -1.0;
    apply_launch(again,
                 {.on_device = kernels.forward.on_device - kUnrepeatedKernels,
                  .by_host = std::max(kernels.forward.by_host - kUnrepeatedKernels, 0.0),
                  .with_start = kernels.forward.with_start - starts_in_products(1.0, gpu)},
                 start * factor.forward);
    costs.unrepeated.launch = costs.forward.launch - again.launch;
  }
  costs.gradient_accumulation =
      layer_gradient_accumulation(scenario, config, kind) * factor.backward;
  return costs;
}

}  // namespace ptdp
