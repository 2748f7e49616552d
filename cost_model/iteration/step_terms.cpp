#include "cost_model/iteration/step_terms.h"

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/inputs/zero_sharding.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/core_sharing.h"
#include "cost_model/operations/memory_bound.h"
#include "cost_model/stage/stage.h"

namespace ptdp {
namespace {

constexpr Bytes kOverflowFlag(4.0);
constexpr Bytes kNorm(8.0);  // a double

}  // namespace

Placements place_groups(const ParallelConfig& config, const ClusterSpec& cluster) {
  const RankGrid grid(config);
  Placements groups{.tensor = place_group(grid, Dimension::kTensor, cluster),
                    .pipeline = place_group(grid, Dimension::kPipeline, cluster),
                    .data = place_replicas(grid, cluster),
                    .shard_replicas = place_shard_replicas(grid, cluster)};
  // Experts that tp does not split are whole on all of its ranks.
  groups.expert_data = config.tp * config.ep * config.etp > 1
                           ? place_expert_group(config, ExpertDimension::kData, cluster)
                           : groups.data;
  if (const int copies = num_copies(config); copies > 1) {
    for (GroupPlacement* data : {&groups.data, &groups.expert_data}) {
      data->size *= copies;
      if (groups.pipeline.is_within_node()) {
        data->ranks_per_node *= copies;
      } else {
        data->nodes *= copies;
        data->oversubscription = std::max(data->oversubscription, groups.pipeline.oversubscription);
      }
    }
  }
  return groups;
}

Seconds exchange_time(const Scenario& scenario, const ParallelConfig& config,
                      const Placements& groups, double messages) {
  const ClusterSpec& cluster = scenario.cluster;
  const StackSpec& stack = scenario.stack;
  const bool is_scattered = config.sequence_parallel || stack.scatter_gather;
  const Bytes message(element_bytes(stack.precision) *
                      pipeline_elements(scenario.job.model, config.micro_batch_size, 1, config.cp));
  const Bytes shard = message / (is_scattered ? config.tp : 1);
  const Seconds gather = is_scattered && !config.sequence_parallel
                             ? all_gather_time(message, groups.tensor, cluster)
                             : Seconds(0.0);
  return exchange_latency(scenario, groups) +
         messages * (message_time(shard, groups.pipeline, cluster) + gather);
}

Seconds exchange_latency(const Scenario& scenario, const Placements& groups) {
  const ClusterSpec& cluster = scenario.cluster;
  return is_message_measured(groups.pipeline, cluster)
             ? cluster.message_curve.points().front().time * cluster.time_factors.communication
             : scenario.stack.pipeline_latency;
}

double num_gradient_buckets(const StackSpec& stack, int pp, double parameters) {
  const Bytes gradients(parameters * stack.reduced_gradient_bytes);
  return overlaps_reduction(stack, pp)
             ? std::max(std::ceil(gradients / stack.gradient_bucket_size), 1.0)
             : 1.0;
}

Seconds reduction_time(const Scenario& scenario, const ParallelConfig& config,
                       const Placements& groups, const RankParameters& parameters, double pieces) {
  const bool is_whole =
      !shards_optimizer(config) || (scenario.stack.all_reduces_shards && shards_gradients(config));
  const auto over = [&](const GroupPlacement& group, double count) {
    const Bytes gradients(count * scenario.stack.reduced_gradient_bytes / pieces);
    const Seconds time = is_whole ? all_reduce_time(gradients, group, scenario.cluster)
                                  : reduce_scatter_time(gradients, group, scenario.cluster);
    return groups.shard_replicas.size == 1
               ? time
               : time + all_reduce_time(gradients / static_cast<double>(group.size),
                                        groups.shard_replicas, scenario.cluster);
  };
  const Seconds time = over(groups.data, parameters.dense);
  return parameters.experts > 0.0 ? time + over(groups.expert_data, parameters.experts) : time;
}

Seconds gathering_time(const Scenario& scenario, const ParallelConfig& config,
                       const Placements& groups, const RankParameters& parameters, double pieces) {
  if (!shards_optimizer(config)) {
    return Seconds(0.0);
  }
  const RankParameters weights = gathered_weights(scenario.stack, parameters);
  const auto over = [&](const GroupPlacement& group, double bytes) {
    return all_gather_time(Bytes(bytes) / pieces, group, scenario.cluster);
  };
  const Seconds time = over(groups.data, weights.dense);
  return weights.experts > 0.0 ? time + over(groups.expert_data, weights.experts) : time;
}

bool has_replicas(const Placements& groups, const RankParameters& parameters) {
  const bool is_shared = groups.data.size > 1 || groups.shard_replicas.size > 1;
  return (parameters.total() > 0.0 && is_shared) ||
         (parameters.experts > 0.0 && groups.expert_data.size > 1);
}

Seconds tied_reduction_time(const Scenario& scenario, const ParallelConfig& config,
                            const Placements& groups) {
  const TransformerConfig& model = scenario.job.model;
  if (config.pp == 1 || model.untied_embeddings ||
      traits_of(config.schedule).placement != StagePlacement::kLooped) {
    return Seconds(0.0);
  }
  // Two members, the first stage and the last.
  const Bytes gradient(static_cast<double>(padded_vocab_size(model, config.tp)) *
                       model.hidden_size / config.tp * scenario.stack.reduced_gradient_bytes);
  const bool is_within_node = groups.pipeline.is_within_node();
  const GroupPlacement ends{.size = 2,
                            .ranks_per_node = is_within_node ? 2 : 1,
                            .nodes = is_within_node ? 1 : 2,
                            .oversubscription = groups.pipeline.oversubscription};
  return all_reduce_time(gradient, ends, scenario.cluster);
}

OptimizerTime optimizer_time(const Scenario& scenario, const ParallelConfig& config,
                             const Placements& groups, const RankParameters& parameters) {
  const StackSpec& stack = scenario.stack;
  const ClusterSpec& cluster = scenario.cluster;
  const auto on_rank = [&](double of_parameter) {
    return updated_by_rank(parameters * of_parameter, config);
  };
  const double factor = compute_factors(config, cluster).optimizer;
  if (has_measured_operations(scenario)) {
    const OptimizerPasses passes = optimizer_passes(scenario, on_rank(1.0));
    return {.norm = passes.norm * factor + all_reduce_time(kNorm, groups.tensor, cluster) +
                    all_reduce_time(kNorm, groups.pipeline, cluster) +
                    all_reduce_time(kNorm, groups.data, cluster) +
                    all_reduce_time(kNorm, groups.shard_replicas, cluster),
            .step = passes.step * factor};
  }
  const bool is_scaled = stack.precision == Precision::kFp16;
  const bool is_on_host = offloads_optimizer(config.offload);
  const double traffic =
      (is_on_host ? 0.0 : stack.optimizer_traffic) + (is_scaled ? stack.loss_scaling_traffic : 0.0);
  const Bytes moved = Bytes(on_rank(traffic)) + weight_cast_traffic(scenario, config, parameters);
  OptimizerTime time{.step = memory_bound_time(moved, cluster.gpu) * factor};
  if (is_on_host) {
    time.step += host_optimizer_time(scenario, config, parameters);
  }
  if (is_scaled && stack.loss_scaling_traffic > 0.0) {
    time.norm = all_reduce_time(kOverflowFlag, groups.tensor, cluster) +
                all_reduce_time(kOverflowFlag, groups.pipeline, cluster);
  }
  return time;
}

}  // namespace ptdp
