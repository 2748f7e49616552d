// Computes products, traffic and messages of a layer's experts.
#include "cost_model/layer/expert_layer.h"

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/layer/expert_biases.h"
#include "cost_model/network/collectives.h"
#include "cost_model/network/expert_dispatch.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kRouterPasses = 6.0;
constexpr double kRouterBytes = 4.0;  // scores are fp32

bool gathers_tokens(const StackSpec& stack) {
  return stack.expert_dispatch == ExpertDispatch::kAllGather;
}

/// Returns the tokens that are sent for the busiest rank. An all-gather sends all of them to every
/// rank.
double sent_tokens(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  return routed_tokens(model, config) * (gathers_tokens(scenario.stack) ? 1.0 : expert_load(model));
}

ExpertRouting routing_of(const TransformerConfig& model) {
  const bool has_groups = model.moe_router_num_groups > 0;
  return {.num_experts = model.num_experts,
          .topk = model.moe_router_topk,
          .num_groups = has_groups ? model.moe_router_num_groups : 1,
          .group_topk = has_groups ? model.moe_router_group_topk : 1};
}

Dispatch dispatch_of(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  return {.tokens = std::llround(std::ceil(sent_tokens(scenario, config))),
          .hidden_size = model.hidden_size,
          .element_bytes = 1.0 * element_bytes(scenario.stack.precision),
          .routing = routing_of(model)};
}

GroupPlacement dispatch_group(const Scenario& scenario, const ParallelConfig& config) {
  return place_expert_group(
      config,
      gathers_tokens(scenario.stack) ? ExpertDimension::kTensorAndExpert : ExpertDimension::kExpert,
      scenario.cluster);
}

/// Returns the bytes that the GPUs that share experts gather and reduce, where the dispatch leaves
/// that to them; else 0.
Bytes gathered_by_sharers(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  return config.etp == 1 || gathers_tokens(scenario.stack)
             ? Bytes(0.0)
             : Bytes(element_bytes(scenario.stack.precision) * sent_tokens(scenario, config) *
                     model.moe_router_topk * config.etp * model.hidden_size);
}

Seconds communication_time(const Scenario& scenario, const ParallelConfig& config) {
  const ClusterSpec& cluster = scenario.cluster;
  const ExpertDispatch kind = scenario.stack.expert_dispatch;
  const Dispatch dispatch = dispatch_of(scenario, config);
  const GroupPlacement group = dispatch_group(scenario, config);
  const Seconds time =
      dispatch_time(dispatch, kind, group, cluster) + combine_time(dispatch, kind, group, cluster);
  const Bytes gathered = gathered_by_sharers(scenario, config);
  if (gathered == Bytes(0.0)) {
    return time;
  }
  const GroupPlacement sharers = place_expert_group(config, ExpertDimension::kTensor, cluster);
  return time + all_gather_time(gathered, sharers, cluster) +
         reduce_scatter_time(gathered, sharers, cluster);
}

/// Returns the rows of tokens that permutations of a pass read and write, there and back.
double permuted_rows(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const ExpertDispatch kind = scenario.stack.expert_dispatch;
  const double tokens = routed_tokens(model, config);
  const double rows = expert_rows(model, config);
  if (kind == ExpertDispatch::kHierarchical) {
    const double arrived = tokens * expert_load(model) *
                           copies_received(routing_of(model), dispatch_group(scenario, config));
    return 2.0 * (arrived + rows);
  }
  const bool sorts = model.num_experts > config.ep && config.ep > 1;
  return 2.0 * (tokens + tokens * model.moe_router_topk) + (sorts ? 4.0 * rows : 0.0) +
         (pads_rows(scenario) ? 4.0 * rows : 0.0);
}

}  // namespace

double routed_tokens(const TransformerConfig& model, const ParallelConfig& config) {
  return 1.0 * config.micro_batch_size * model.seq_length / config.cp / config.tp;
}

double expert_rows(const TransformerConfig& model, const ParallelConfig& config) {
  return routed_tokens(model, config) * model.moe_router_topk * expert_load(model) * config.etp;
}

std::vector<SizedLinear> expert_linears(const TransformerConfig& model,
                                        const ParallelConfig& config) {
  const std::int64_t h = model.hidden_size;
  const std::int64_t experts = experts_of_rank(model, config);
  const auto own = static_cast<std::int64_t>(std::ceil(routed_tokens(model, config)));
  const auto rows_of_expert = static_cast<std::int64_t>(
      std::ceil(expert_rows(model, config) / static_cast<double>(experts)));
  const std::int64_t width = model.moe_ffn_hidden_size / config.etp;
  const std::int64_t up = (model.gated_linear_unit ? 2 : 1) * width;
  return {{.name = "router", .size = {own, model.num_experts, h}},
          {.name = "first of experts", .size = {rows_of_expert, up, h}, .experts = experts},
          {.name = "second of experts", .size = {rows_of_expert, h, width}, .experts = experts}};
}

ExpertCosts expert_costs(const Scenario& scenario, const ParallelConfig& config) {
  const TransformerConfig& model = scenario.job.model;
  const GpuSpec& gpu = scenario.cluster.gpu;
  const StackSpec& stack = scenario.stack;
  const double tokens = routed_tokens(model, config);
  const double visits = tokens * model.moe_router_topk;
  const double rows = expert_rows(model, config);
  const std::int64_t h = model.hidden_size;
  const std::int64_t width = model.moe_ffn_hidden_size / config.etp;

  ExpertCosts costs;
  for (const SizedLinear& each : expert_linears(model, config)) {
    const auto& [of_each, outputs, inputs] = each.size;
    costs.products += each.experts == 0
                          ? linear_time(of_each, outputs, inputs, gpu, stack)
                          : grouped_linear_time(each.experts, of_each, outputs, inputs, gpu, stack);
  }

  const double bytes = element_bytes(stack.precision);
  const Bytes of_tokens(bytes * tokens * static_cast<double>(h));
  const Bytes of_visits(bytes * visits * static_cast<double>(h));
  const Bytes permuted(bytes * permuted_rows(scenario, config) * static_cast<double>(h));
  const Bytes activations(bytes * rows * static_cast<double>(width));
  const Bytes routing(kRouterPasses * kRouterBytes * tokens * model.num_experts);
  const Bytes moved = permuted + routing;
  const bool is_gated = model.gated_linear_unit;
  const bool is_fused = fuses_expert_activation(scenario);
  const double passes = is_fused ? 0.0 : is_gated ? 3.0 : 2.0;
  const double passes_back = is_fused ? 0.0 : is_gated ? 5.0 : 4.0;
  const ExpertBiasTraffic biases =
      expert_bias_traffic(model, stack, rows, static_cast<double>(width));
  costs.element_wise_forward =
      memory_bound_time(moved + passes * activations + biases.forward, gpu);
  costs.element_wise_backward = memory_bound_time(
      moved + of_visits + of_tokens + passes_back * activations + biases.backward, gpu);
  costs.activation_forward = memory_bound_time(passes * activations + biases.bounds, gpu);
  costs.communication = communication_time(scenario, config);
  return costs;
}

bool hides_dispatch(const Scenario& scenario, const ParallelConfig& config) {
  return scenario.stack.expert_overlap && scenario.job.model.num_experts > 0 && config.ep > 1 &&
         !gathers_tokens(scenario.stack) && repeats(config.recompute) != Repeats::kLayer &&
         scenario.job.model.mtp_num_layers <= 1 &&
         (config.pp == 1 || traits_of(config.schedule).has_groups);
}

Bytes expert_volume(const Scenario& scenario, const ParallelConfig& config) {
  const Bytes gathered = gathered_by_sharers(scenario, config);
  return 2.0 * dispatch_volume(dispatch_of(scenario, config), scenario.stack.expert_dispatch,
                               dispatch_group(scenario, config)) +
         ring_all_gather_volume(gathered, config.etp) +
         ring_reduce_scatter_volume(gathered, config.etp);
}

}  // namespace ptdp
