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
#include "cost_model/network/collectives.h"
#include "cost_model/operations/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kSmallestBucket = 4.0;  // bytes

/// Returns the parameters of a GPU that belong to each virtual stage. The first and the last have
/// the embedding, the logits and whatever else the ends of the model have.
std::vector<RankParameters> parameters_by_virtual_stage(const TransformerConfig& model,
                                                        const ParallelConfig& config) {
  // A pipeline with a pipeline rank for every virtual stage tells them apart.
  ParallelConfig unfolded = config;
  unfolded.pp = config.pp * config.vpp;
  unfolded.vpp = 1;
  unfolded.schedule = ScheduleKind::kOneFOneB;
  return parameters_by_rank(model, unfolded);
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

/// Returns the node of each pipeline rank.
std::vector<int> nodes_of_ranks(const PlannedJob& job) {
  const RankGrid grid(job.config());
  const std::int64_t node = gpus_taken_per_node(job.cluster(), grid.world_size());
  std::vector<int> nodes;
  nodes.reserve(job.config().pp);
  for (int rank = 0; rank < job.config().pp; ++rank) {
    nodes.push_back(static_cast<int>(rank * grid.stride(Dimension::kPipeline) / node));
  }
  return nodes;
}

constexpr GroupPlacement kNeighborsOnANode = {.size = 2, .ranks_per_node = 2};

/// Returns the groups as a message from a pipeline rank to the next one meets them: those of the
/// pipeline hold the two alone, or what spans nodes.
Placements groups_of_hop(const PlannedJob& job, const std::vector<int>& nodes, int rank) {
  Placements groups = job.groups();
  const int next = (rank + 1) % job.config().pp;
  if (nodes[rank] == nodes[next]) {
    groups.pipeline = kNeighborsOnANode;
  } else if (!job.cluster().network_tiers.empty()) {
    const std::int64_t stride = RankGrid(job.config()).stride(Dimension::kPipeline);
    groups.pipeline.oversubscription =
        oversubscription_between(rank * stride, next * stride, job.cluster());
  }
  return groups;
}

/// Sets messages within a node and across nodes, and which ranks lie on which node. Where the
/// network has tiers, sets the time of a message between each two neighbors.
void add_messages(const PlannedJob& job, StepTimes& times) {
  Placements within = job.groups();
  within.pipeline = kNeighborsOnANode;
  times.within_node = message_over(job, within);
  times.across_nodes = message_over(job, job.groups());
  for (int rank = 0; !job.cluster().network_tiers.empty() && rank < job.config().pp; ++rank) {
    times.hops.push_back(message_over(job, groups_of_hop(job, times.node_of, rank)));
  }
}

/// Returns `value_of` each element. It is asked once about equal ones in a row, which most stages
/// of a pipeline are.
template <class Element, class ValueOf>
auto values_of(const std::vector<Element>& elements, const ValueOf& value_of) {
  std::vector<decltype(value_of(elements.front()))> values;
  values.reserve(elements.size());
  for (std::size_t i = 0; i < elements.size(); ++i) {
    values.push_back(i > 0 && elements[i] == elements[i - 1] ? values[i - 1]
                                                             : value_of(elements[i]));
  }
  return values;
}

/// Times of one bucket of a virtual stage.
struct BucketTimes {
  TransferTime reduction;  ///< Time of its gradients.
  TransferTime gather;     ///< Time of its parameters.
};

BucketTimes bucket_times(const PlannedJob& job, const RankParameters& held) {
  if (!has_replicas(job.groups(), held)) {
    return {};
  }
  const StackSpec& stack = job.stack();
  const double count = held.total();
  const double buckets = num_gradient_buckets(stack, job.config().pp, count);
  const auto pieces_of = [](double bytes) { return bytes / kSmallestBucket; };
  const double copies = overlaps_reduction(stack, job.config().pp)
                            ? kBucketPasses * stack.gradient_bucket_bytes
                            : stack.gradient_staging_traffic;
  BucketTimes times;
  if (!shards_gradients(job.config())) {
    times.reduction =
        split(reduction_time(job, held, buckets),
              reduction_time(job, held, pieces_of(count * stack.reduced_gradient_bytes)));
    times.reduction.transfer +=
        memory_bound_time(Bytes(count * copies / buckets), job.cluster().gpu);
  }
  if (!shards_weights(job.config())) {
    times.gather =
        split(gathering_time(job, held, buckets),
              gathering_time(job, held, pieces_of(gathered_weights(stack, held).total())));
  }
  return times;
}

/// Sets one bucket of each virtual stage's gradients and parameters.
void add_buckets(const PlannedJob& job, const std::vector<RankParameters>& parameters,
                 StepTimes& times) {
  for (const BucketTimes& of :
       values_of(parameters, [&](const RankParameters& held) { return bucket_times(job, held); })) {
    times.reductions.push_back(of.reduction);
    times.gathers.push_back(of.gather);
  }
}

/// Sets the norm and the optimizer of each pipeline rank, of which a GPU holds `parameters`.
void add_optimizer(const PlannedJob& job, const std::vector<RankParameters>& parameters,
                   StepTimes& times) {
  for (const OptimizerTime& optimizer : values_of(
           parameters, [&](const RankParameters& held) { return optimizer_time(job, held); })) {
    times.norm = optimizer.norm;
    times.optimizer.push_back(optimizer.step);
  }
}

/// Returns the passes of a step and how its parts run; messages, buckets and the optimizer are yet
/// to be set.
StepTimes times_with_passes(const PlannedJob& job, std::vector<StageDurations> passes) {
  const StackSpec& stack = job.stack();
  const Placements& groups = job.groups();
  return {.stages = std::move(passes),
          .messages = message_mode(stack, job.config()),
          .node_of = nodes_of_ranks(job),
          .data = data_mode(stack, job.config().pp),
          .data_is_across_nodes =
              !groups.data.is_within_node() || !groups.shard_replicas.is_within_node(),
          .ranks_meet = !stack.optimizer_post_validation,
          .overlap_slowdown = stack.overlap_slowdown};
}

/// Returns all that passes take: virtual_stage_durations(), the accumulation of gradients, and what
/// full sharding and offloading add.
std::vector<StageDurations> whole_passes(const PlannedJob& job) {
  const ParallelConfig& config = job.config();
  std::vector<StageDurations> stages = virtual_stage_durations(job);
  const auto microbatches = static_cast<double>(job.microbatches());
  // PipeDream adds no gradient to another.
  const double accumulations = traits_of(config.schedule).applies_every_microbatch
                                   ? 0.0
                                   : (microbatches - 1.0) / microbatches;
  const int num_stages = config.pp * config.vpp;
  std::vector<LayerCounts> held;
  held.reserve(stages.size());
  for (int stage = 0; stage < num_stages; ++stage) {
    held.push_back(layers_of_virtual_stage(job.model(), config, stage));
  }
  const std::vector<LayerCosts> layers =
      values_of(held, [&](const LayerCounts& counts) { return sum_of(job.costs(), counts); });
  for (int stage = 0; stage < num_stages; ++stage) {
    const Seconds ends =
        (stage == 0 ? job.costs().embedding_accumulation : Seconds(0.0)) +
        (stage == num_stages - 1 ? uses_at_the_end(job.model()) * job.costs().embedding_accumulation
                                 : Seconds(0.0));
    const auto i = static_cast<std::size_t>(stage);
    StageDurations& of = stages[i];
    of = stage_durations(of.forward, of.input_gradient,
                         of.weight_gradient + accumulations * share_accumulated(config) *
                                                  (layers[i].gradient_accumulation + ends),
                         of.alone);
  }
  if (shards_gradients(config)) {
    const ShardingTime time = sharding_time(job);
    add_to_passes(time.forward, time.backward, stages);
  }
  if (offloads_activations(config.offload)) {
    const OffloadTime time = activation_offload_time(job);
    add_to_passes(time.forward, time.backward, stages);
  }
  return stages;
}

}  // namespace

StepBuckets step_buckets(const PlannedJob& job) {
  return step_buckets(job, parameters_by_virtual_stage(job.model(), job.config()));
}

StepBuckets step_buckets(const PlannedJob& job, const std::vector<RankParameters>& held) {
  const Placements& groups = job.groups();
  const bool has_any = std::ranges::any_of(
      held, [&](const RankParameters& of_stage) { return has_replicas(groups, of_stage); });
  StepBuckets buckets;
  for (const RankParameters& of_stage : held) {
    const int count =
        has_any
            ? static_cast<int>(num_gradient_buckets(job.stack(), job.config().pp, of_stage.total()))
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
  StepTimes times = times_with_passes(job, whole_passes(job));
  times.tied = split(tied_reduction_time(job), Seconds(0.0));
  add_messages(job, times);
  add_buckets(job, parameters_by_virtual_stage(job.model(), job.config()), times);
  add_optimizer(job, parameters_by_rank(job.model(), job.config()), times);
  return times;
}

StepTimes step_times(const PlannedJob& job, const StageLoads& loads) {
  StepTimes times = times_with_passes(job, loads.passes);
  for (int rank = 0; rank < job.config().pp; ++rank) {
    const Placements groups = groups_of_hop(job, times.node_of, rank);
    times.hops.push_back(
        {.latency = exchange_latency(job.scenario(), groups),
         .transfer = message_time(loads.sent[rank], groups.pipeline, job.cluster())});
  }
  add_buckets(job, loads.held, times);
  std::vector<RankParameters> of_ranks(static_cast<std::size_t>(job.config().pp));
  for (std::size_t stage = 0; stage < loads.held.size(); ++stage) {
    of_ranks[stage % of_ranks.size()] += loads.held[stage];
  }
  add_optimizer(job, of_ranks, times);
  return times;
}

}  // namespace ptdp
