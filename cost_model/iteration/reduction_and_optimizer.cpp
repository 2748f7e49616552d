// Times exchanges, reductions, gathers and the optimizer on the placements of a job's groups.
#include "cost_model/iteration/reduction_and_optimizer.h"

#include <algorithm>
#include <cmath>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/layer/element_wise.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/memory_bound.h"
#include "cost_model/pipeline_rank/rank_costs.h"

namespace ptdp {
namespace {

constexpr Bytes kOverflowFlag(4.0);
constexpr Bytes kNorm(8.0);  // a double

/// Returns what broadcasts of a GPU's parameters wait for beyond their transfer, if the stack sends
/// weights so (gathering_time()).
Seconds broadcast_latency(const PlannedJob& job, const RankParameters& parameters) {
  const GroupPlacement& shards = job.groups().data;
  if (!job.stack().broadcasts_weights || shards.is_within_node()) {
    return Seconds(0.0);
  }
  const TransformerConfig& model = job.model();
  const double in_a_layer = model.gated_linear_unit ? 5.0 : 4.0;  // QKV, projection, MLP
  const double matrices = in_a_layer * model.num_layers / job.config().pp + 1.0;  // an embedding
  const auto ranks = static_cast<double>(shards.size);
  const double share = parameters.total() / rank_parameters(model, job.config(), 0).total();
  return share * std::min(matrices, ranks) * ranks * job.cluster().nic.hop_latency;
}

}  // namespace

Seconds exchange_time(const PlannedJob& job, const Placements& groups, double messages) {
  const ClusterSpec& cluster = job.cluster();
  const StackSpec& stack = job.stack();
  const bool is_scattered = job.config().sequence_parallel || stack.scatter_gather;
  const Bytes message(
      element_bytes(stack.precision) *
      pipeline_elements(job.model(), job.config().micro_batch_size, 1, job.config().cp));
  const Bytes shard = message / (is_scattered ? job.config().tp : 1);
  const Seconds gather = is_scattered && !job.config().sequence_parallel
                             ? all_gather_time(message, groups.tensor, cluster)
                             : Seconds(0.0);
  return exchange_latency(job.scenario(), groups) +
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

bool all_reduces(const StackSpec& stack, const ParallelConfig& config) {
  return !shards_optimizer(config) ||
         (shards_gradients(config) ? stack.all_reduces_shards : stack.all_reduces_gradients);
}

Seconds reduction_time(const PlannedJob& job, const RankParameters& parameters, double pieces) {
  const bool is_whole = all_reduces(job.stack(), job.config());
  const auto over = [&](const GroupPlacement& group, double count) {
    const Bytes gradients(count * job.stack().reduced_gradient_bytes / pieces);
    const Seconds time = is_whole ? all_reduce_time(gradients, group, job.cluster())
                                  : reduce_scatter_time(gradients, group, job.cluster());
    return job.groups().shard_replicas.size == 1
               ? time
               : time + all_reduce_time(gradients / static_cast<double>(group.size),
                                        job.groups().shard_replicas, job.cluster());
  };
  const Seconds time = over(job.groups().data, parameters.dense);
  return parameters.experts > 0.0 ? time + over(job.groups().expert_data, parameters.experts)
                                  : time;
}

Seconds gathering_time(const PlannedJob& job, const RankParameters& parameters, double pieces) {
  if (!shards_optimizer(job.config())) {
    return Seconds(0.0);
  }
  const RankParameters weights = gathered_weights(job.stack(), parameters);
  const auto over = [&](const GroupPlacement& group, double bytes) {
    return all_gather_time(Bytes(bytes) / pieces, group, job.cluster());
  };
  const Seconds time =
      over(job.groups().data, weights.dense) + broadcast_latency(job, parameters) / pieces;
  return weights.experts > 0.0 ? time + over(job.groups().expert_data, weights.experts) : time;
}

bool has_replicas(const Placements& groups, const RankParameters& parameters) {
  const bool is_shared = groups.data.size > 1 || groups.shard_replicas.size > 1;
  return (parameters.total() > 0.0 && is_shared) ||
         (parameters.experts > 0.0 && groups.expert_data.size > 1);
}

Seconds tied_reduction_time(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  if (job.config().pp == 1 || model.untied_embeddings ||
      traits_of(job.config().schedule).placement != StagePlacement::kLooped) {
    return Seconds(0.0);
  }
  // The group has two members: the first pipeline rank and the last.
  const Bytes gradient(static_cast<double>(padded_vocab_size(model, job.config().tp)) *
                       model.hidden_size / job.config().tp * job.stack().reduced_gradient_bytes);
  const bool is_within_node = job.groups().pipeline.is_within_node();
  const GroupPlacement ends{.size = 2,
                            .ranks_per_node = is_within_node ? 2 : 1,
                            .nodes = is_within_node ? 1 : 2,
                            .oversubscription = job.groups().pipeline.oversubscription};
  return all_reduce_time(gradient, ends, job.cluster());
}

OptimizerTime optimizer_time(const PlannedJob& job, const RankParameters& parameters) {
  const StackSpec& stack = job.stack();
  const ClusterSpec& cluster = job.cluster();
  const auto on_rank = [&](double of_parameter) {
    return updated_by_rank(parameters * of_parameter, job.config());
  };
  const double factor = compute_factors(job.config(), cluster).optimizer;
  if (has_measured_operations(job.scenario())) {
    const OptimizerPasses passes = optimizer_passes(job.scenario(), on_rank(1.0));
    return {.norm = passes.norm * factor + all_reduce_time(kNorm, job.groups().tensor, cluster) +
                    all_reduce_time(kNorm, job.groups().pipeline, cluster) +
                    all_reduce_time(kNorm, job.groups().data, cluster) +
                    all_reduce_time(kNorm, job.groups().shard_replicas, cluster),
            .step = passes.step * factor};
  }
  const bool is_scaled = stack.precision == Precision::kFp16;
  const bool is_on_host = offloads_optimizer(job.config().offload);
  const double traffic =
      (is_on_host ? 0.0 : stack.optimizer_traffic) + (is_scaled ? stack.loss_scaling_traffic : 0.0);
  const Bytes moved =
      Bytes(on_rank(traffic)) + weight_cast_traffic(job.scenario(), job.config(), parameters);
  OptimizerTime time{.step = memory_bound_time(moved, cluster.gpu) * factor};
  if (is_on_host) {
    time.step += host_optimizer_time(job, parameters);
  }
  if (is_scaled && stack.loss_scaling_traffic > 0.0) {
    time.norm = all_reduce_time(kOverflowFlag, job.groups().tensor, cluster) +
                all_reduce_time(kOverflowFlag, job.groups().pipeline, cluster);
  }
  return time;
}

}  // namespace ptdp
