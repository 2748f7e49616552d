// Builds the times of a simulated step out of the terms of a job.
#include "cost_model/iteration/step_builder.h"

#include <algorithm>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/iteration/virtual_stage_durations.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kSmallestBucket = 4.0;  // bytes

/// Returns the parameters of a GPU that belong to each virtual stage. The first and the last have
/// the embedding, the logits and whatever else the ends of the model have.
std::vector<RankParameters> parameters_by_virtual_stage(const TransformerConfig& model,
                                                        const ParallelConfig& config) {
  const int num_stages = config.pp * config.vpp;
  // A pipeline with a pipeline rank for every virtual stage tells them apart.
  ParallelConfig unfolded = config;
  unfolded.pp = num_stages;
  unfolded.vpp = 1;
  unfolded.schedule = ScheduleKind::kOneFOneB;
  std::vector<RankParameters> parameters;
  parameters.reserve(static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) {
    parameters.push_back(rank_parameters(model, unfolded, stage));
  }
  return parameters;
}

/// Splits `time`, that of a transfer of some size, into the time of the smallest size as latency
/// and the rest.
TransferTime split(Seconds time, Seconds smallest) {
  const Seconds latency = std::min(time, smallest);
  return {.latency = latency, .transfer = time - latency};
}

/// Returns the time of one message over the pipeline groups of `groups`.
TransferTime message_over(const PlannedJob& job, const Placements& groups) {
  const Seconds latency = exchange_latency(job.scenario(), groups);
  return {.latency = latency, .transfer = exchange_time(job, groups, /*messages=*/1.0) - latency};
}

/// Sets messages within a node and across nodes, and which ranks lie on which node. Where the
/// network has tiers, sets the time of a message between each two neighbors.
void add_messages(const PlannedJob& job, StepTimes& times) {
  const ClusterSpec& cluster = job.cluster();
  Placements within = job.groups();
  within.pipeline = {.size = 2, .ranks_per_node = 2};
  times.within_node = message_over(job, within);
  times.across_nodes = message_over(job, job.groups());
  const RankGrid grid(job.config());
  const std::int64_t stride = grid.stride(Dimension::kPipeline);
  const std::int64_t node = gpus_taken_per_node(cluster, grid.world_size());
  for (int rank = 0; rank < job.config().pp; ++rank) {
    times.node_of.push_back(static_cast<int>(rank * stride / node));
  }
  if (cluster.network_tiers.empty()) {
    return;
  }
  for (int rank = 0; rank < job.config().pp; ++rank) {
    const int next = (rank + 1) % job.config().pp;
    Placements hop = within;
    if (rank * stride / node != next * stride / node) {
      hop = job.groups();
      hop.pipeline.oversubscription =
          oversubscription_between(rank * stride, next * stride, cluster);
    }
    times.hops.push_back(message_over(job, hop));
  }
}

}  // namespace

StepBuckets step_buckets(const PlannedJob& job) {
  const Placements& groups = job.groups();
  const std::vector<RankParameters> parameters =
      parameters_by_virtual_stage(job.model(), job.config());
  const bool has_any = std::ranges::any_of(
      parameters, [&](const RankParameters& held) { return has_replicas(groups, held); });
  StepBuckets buckets;
  for (const RankParameters& held : parameters) {
    const int count =
        has_any ? static_cast<int>(num_gradient_buckets(job.stack(), job.config().pp, held.total()))
                : 0;
    buckets.reductions.push_back(shards_gradients(job.config()) ? 0 : count);
    buckets.gathers.push_back(
        shards_optimizer(job.config()) && !shards_weights(job.config()) ? count : 0);
  }
  return buckets;
}

MessageMode message_mode(const StackSpec& stack, const ParallelConfig& config) {
  const ScheduleTraits& traits = traits_of(config.schedule);
  // `least` is the least overlap of a stack in which messages of this schedule overlap.
  const PipelineOverlap least = traits.splits_backward   ? PipelineOverlap::kSplitBackward
                                : traits.most_chunks > 1 ? PipelineOverlap::kInterleaved
                                                         : PipelineOverlap::kAlways;
  return stack.pipeline_overlap >= least ? MessageMode::kOverlapped : MessageMode::kBlocking;
}

DataMode data_mode(const StackSpec& stack, int pp) {
  if (overlaps_gathering(stack, pp)) {
    return DataMode::kOverlapped;
  }
  return overlaps_reduction(stack, pp) ? DataMode::kBlockingGathers : DataMode::kBlocking;
}

StepTimes step_times(const PlannedJob& job) {
  const StackSpec& stack = job.stack();
  const ClusterSpec& cluster = job.cluster();
  const TransformerConfig& model = job.model();
  const Placements& groups = job.groups();
  const auto microbatches = static_cast<double>(job.microbatches());
  StepTimes times{.stages = virtual_stage_durations(job),
                  .messages = message_mode(stack, job.config()),
                  .data = data_mode(stack, job.config().pp),
                  .data_is_across_nodes =
                      !groups.data.is_within_node() || !groups.shard_replicas.is_within_node(),
                  .tied = split(tied_reduction_time(job), Seconds(0.0)),
                  .overlap_slowdown = stack.overlap_slowdown};
  times.ranks_meet = !stack.optimizer_post_validation;

  // PipeDream adds no gradient to another.
  const double accumulations = traits_of(job.config().schedule).applies_every_microbatch
                                   ? 0.0
                                   : (microbatches - 1.0) / microbatches;
  const int num_stages = job.config().pp * job.config().vpp;
  for (int stage = 0; stage < num_stages; ++stage) {
    const Seconds ends =
        (stage == 0 ? job.costs().embedding_accumulation : Seconds(0.0)) +
        (stage == num_stages - 1 ? uses_at_the_end(model) * job.costs().embedding_accumulation
                                 : Seconds(0.0));
    const LayerCosts layers =
        sum_of(job.costs(), layers_of_virtual_stage(model, job.config(), stage));
    StageDurations& of = times.stages[static_cast<std::size_t>(stage)];
    of = stage_durations(of.forward, of.input_gradient,
                         of.weight_gradient + accumulations * share_accumulated(job.config()) *
                                                  (layers.gradient_accumulation + ends),
                         of.alone);
  }
  if (shards_gradients(job.config())) {
    const ShardingTime time = sharding_time(job);
    add_to_passes(time.forward, time.backward, times.stages);
  }
  if (offloads_activations(job.config().offload)) {
    const OffloadTime time = activation_offload_time(job);
    add_to_passes(time.forward, time.backward, times.stages);
  }

  add_messages(job, times);

  const std::vector<RankParameters> parameters = parameters_by_virtual_stage(model, job.config());
  for (const RankParameters& held : parameters) {
    if (!has_replicas(groups, held)) {
      times.reductions.emplace_back();
      times.gathers.emplace_back();
      continue;
    }
    const double count = held.total();
    const double buckets = num_gradient_buckets(stack, job.config().pp, count);
    const auto pieces_of = [](double bytes) { return bytes / kSmallestBucket; };
    const double copies = overlaps_reduction(stack, job.config().pp)
                              ? kBucketPasses * stack.gradient_bucket_bytes
                              : stack.gradient_staging_traffic;
    TransferTime reduction =
        split(reduction_time(job, held, buckets),
              reduction_time(job, held, pieces_of(count * stack.reduced_gradient_bytes)));
    reduction.transfer += memory_bound_time(Bytes(count * copies / buckets), cluster.gpu);
    times.reductions.push_back(shards_gradients(job.config()) ? TransferTime{} : reduction);
    times.gathers.push_back(
        shards_weights(job.config())
            ? TransferTime{}
            : split(gathering_time(job, held, buckets),
                    gathering_time(job, held, pieces_of(gathered_weights(stack, held).total()))));
  }
  for (int rank = 0; rank < job.config().pp; ++rank) {
    const OptimizerTime optimizer = optimizer_time(job, rank_parameters(model, job.config(), rank));
    times.norm = optimizer.norm;
    times.optimizer.push_back(optimizer.step);
  }
  return times;
}

}  // namespace ptdp
