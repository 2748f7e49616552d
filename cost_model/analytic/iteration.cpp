#include "cost_model/analytic/iteration.h"

#include <algorithm>
#include <cmath>

#include "cost_model/analytic/collectives.h"
#include "cost_model/analytic/memory.h"
#include "cost_model/analytic/memory_bound.h"

namespace ptdp {
namespace {

constexpr double kParameterBytes = 2.0;  // gathered after a sharded optimizer step
constexpr Bytes kOverflowFlag(4.0);
constexpr double kBucketPasses = 4.0;  // into the bucket and back, reading and writing

/// Of the stage that holds most.
double most_parameters(const TransformerConfig& model, const ParallelConfig& config) {
  double most = 0.0;
  for (int stage = 0; stage < config.pp; stage += stage_step(config)) {
    most = std::max(most, stage_parameters(model, config, stage));
  }
  return most;
}

/// Where the groups of a configuration lie.
struct Placements {
  GroupPlacement tensor;
  GroupPlacement pipeline;
  GroupPlacement data;
};

Placements place_groups(const ParallelConfig& config, const ClusterSpec& cluster) {
  const RankGrid grid(config);
  return {.tensor = place_group(grid, Dimension::kTensor, cluster),
          .pipeline = place_group(grid, Dimension::kPipeline, cluster),
          .data = place_group(grid, Dimension::kData, cluster)};
}

/// Messages that block the pacing stage.
Seconds pipeline_message_time(const Scenario& scenario, const ParallelConfig& config,
                              const Placements& groups, double microbatches) {
  if (config.pp == 1) {
    return Seconds(0.0);
  }
  const ClusterSpec& cluster = scenario.cluster;
  const StackSpec& stack = scenario.stack;
  const bool is_scattered = config.sequence_parallel || stack.scatter_gather;
  const Bytes message(2.0 * pipeline_elements(scenario.job.model, config.micro_batch_size, 1, 1));
  const Bytes shard = message / (is_scattered ? config.tp : 1);
  const Seconds gather = is_scattered && !config.sequence_parallel
                             ? all_gather_time(message, groups.tensor, cluster)
                             : Seconds(0.0);
  const auto exchange = [&](double messages) {
    return stack.pipeline_latency +
           messages * (message_time(shard, groups.pipeline, cluster) + gather);
  };
  const double fill = config.pp - 1.0;
  if (config.vpp == 1) {
    return (microbatches + fill) * 2.0 * exchange(1.0);
  }
  if (stack.pipeline_overlap) {
    return fill * 2.0 * exchange(1.0);
  }
  return (microbatches * config.vpp + fill) * exchange(2.0);
}

/// Gradient reduction and parameter gathering that compute does not hide.
Seconds data_parallel_time(const Scenario& scenario, const ParallelConfig& config,
                           const GroupPlacement& group, const StageCosts& stage,
                           double parameters) {
  if (config.dp == 1) {
    return Seconds(0.0);
  }
  const ClusterSpec& cluster = scenario.cluster;
  const StackSpec& stack = scenario.stack;
  const Bytes gradients(parameters * stack.reduced_gradient_bytes);
  const bool is_sharded = config.zero_stage >= 1;
  const auto reduction = [&](double pieces) {
    return is_sharded ? reduce_scatter_time(gradients / pieces, group, cluster)
                      : all_reduce_time(gradients / pieces, group, cluster);
  };
  const auto gathering = [&](double pieces) {
    return is_sharded
               ? all_gather_time(Bytes(parameters * kParameterBytes / pieces), group, cluster)
               : Seconds(0.0);
  };

  if (!overlaps_reduction(stack, config.pp)) {
    return reduction(1.0) + gathering(1.0) +
           memory_bound_time(Bytes(parameters * stack.gradient_staging_traffic), cluster.gpu);
  }
  // Buckets go one after the other, the last with nothing left to hide it. One microbatch's passes
  // through this stage hide what they can of the others: the backward one (which starts with the
  // recomputation) the reduction, the next iteration's first forward one the gathering.
  const double buckets = std::max(std::ceil(gradients / stack.gradient_bucket_size), 1.0);
  const auto exposed = [&](Seconds of_bucket, Seconds compute) {
    const Seconds hidden = std::min(of_bucket * (buckets - 1.0), compute);
    return of_bucket * buckets - hidden + stack.overlap_slowdown * hidden;
  };
  const Bytes copied(kBucketPasses * parameters * stack.gradient_bucket_bytes);
  return exposed(reduction(buckets), stage.backward.total() + stage.recompute.total()) +
         exposed(gathering(buckets), stage.forward.total()) +
         memory_bound_time(copied, cluster.gpu);
}

/// The optimizer's step on its shard. With fp16 it first looks for overflows, of which all GPUs of
/// a replica have to know before any may go on.
Seconds optimizer_time(const Scenario& scenario, const ParallelConfig& config,
                       const Placements& groups, double parameters) {
  const StackSpec& stack = scenario.stack;
  const double shards = config.zero_stage >= 1 ? config.dp : 1.0;
  const bool is_scaled = stack.precision == Precision::kFp16;
  const double traffic = stack.optimizer_traffic + (is_scaled ? stack.loss_scaling_traffic : 0.0);
  Seconds time = memory_bound_time(Bytes(parameters * traffic / shards), scenario.cluster.gpu);
  if (is_scaled && stack.loss_scaling_traffic > 0.0) {
    time += all_reduce_time(kOverflowFlag, groups.tensor, scenario.cluster) +
            all_reduce_time(kOverflowFlag, groups.pipeline, scenario.cluster);
  }
  return time;
}

}  // namespace

Seconds CostBreakdown::total() const {
  Seconds sum;
  for (const CostTerm& term : kCostTerms) {
    sum += this->*term.time;
  }
  return sum;
}

CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config,
                             const MicrobatchCosts& costs) {
  const ClusterSpec& cluster = scenario.cluster;
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  const Placements groups = place_groups(config, cluster);
  const PipelineCosts pipeline = pipeline_costs(scenario, config, costs);
  const StageCosts& stage = pipeline.slowest;
  const PassTime passes = (stage.forward + stage.backward) * microbatches;
  const double parameters = most_parameters(scenario.job.model, config);

  CostBreakdown cost;
  cost.matmul = passes.matmul;
  cost.attention = passes.attention;
  cost.memory_bound = passes.memory_bound + (microbatches - 1.0) * stage.gradient_accumulation;
  cost.launch = passes.launch + microbatches * stage.overhead;
  cost.tensor_parallel = passes.tensor_parallel;
  cost.recompute = microbatches * stage.recompute.total();
  cost.embedding_and_logits = microbatches * stage.ends.total();
  cost.bubble = (config.pp - 1.0) / config.vpp * pipeline.mean;
  cost.pipeline_messages = pipeline_message_time(scenario, config, groups, microbatches);
  cost.data_parallel = data_parallel_time(scenario, config, groups.data, stage, parameters);
  if (config.pp > 1 && !scenario.job.model.untied_embeddings) {
    // Two members, the first stage and the last.
    const Bytes gradient(static_cast<double>(padded_vocab_size(scenario.job.model, config.tp)) *
                         scenario.job.model.hidden_size / config.tp *
                         scenario.stack.reduced_gradient_bytes);
    const bool is_within_node = groups.pipeline.is_within_node();
    const GroupPlacement ends{.size = 2,
                              .ranks_per_node = is_within_node ? 2 : 1,
                              .nodes = is_within_node ? 1 : 2,
                              .oversubscription = groups.pipeline.oversubscription};
    cost.embedding_all_reduce = all_reduce_time(gradient, ends, cluster);
  }
  cost.optimizer = optimizer_time(scenario, config, groups, parameters);
  return cost;
}

CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config) {
  return iteration_cost(scenario, config, microbatch_costs(scenario, config));
}

Traffic iteration_traffic(const Scenario& scenario, const ParallelConfig& config, Seconds time) {
  const TransformerConfig& model = scenario.job.model;
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  double layers = 0.0;
  for (int stage = 0; stage < config.pp; stage += stage_step(config)) {
    layers = std::max(layers, layers_of_stage(model, config, stage));
  }
  Traffic traffic;
  traffic.tensor_parallel =
      Bytes(2.0 * microbatches * layers *
            tensor_parallel_elements(model, config.micro_batch_size, config.tp, config.recompute,
                                     config.sequence_parallel));
  if (config.pp > 1) {
    const bool is_scattered = config.sequence_parallel || scenario.stack.scatter_gather;
    const double elements =
        pipeline_elements(model, config.micro_batch_size, 1, is_scattered ? config.tp : 1);
    // A pass through p·v chunks is p·v − 1 messages: a middle stage sends v in each of the two
    // passes; the first and the last, which is all there are of two stages, one less in one of
    // them.
    const Bytes message(2.0 * microbatches * elements);
    const double sent = config.pp > 2 ? 2.0 * config.vpp : 2.0 * config.vpp - 1.0;
    traffic.pipeline = message * sent;
    // Every tp and dp rank has a link through the cut. Each of the two passes crosses it v times
    // forth, and v − 1 times back between the last stage and the first.
    const double crossings = 2.0 * (2.0 * config.vpp - 1.0);
    traffic.pipeline_bisection = message * crossings * config.tp * config.dp / time;
  }
  // What a rank of each stage sends to reduce its gradients, and to gather parameters from shards.
  Bytes of_all_stages;
  for (int stage = 0; stage < config.pp; ++stage) {
    const double parameters = stage_parameters(model, config, stage);
    const Bytes gradients(parameters * scenario.stack.reduced_gradient_bytes);
    const Bytes sent =
        config.zero_stage >= 1
            ? ring_reduce_scatter_volume(gradients, config.dp) +
                  ring_all_gather_volume(Bytes(parameters * kParameterBytes), config.dp)
            : ring_all_reduce_volume(gradients, config.dp);
    traffic.data_parallel = std::max(traffic.data_parallel, sent);
    of_all_stages += sent;
  }
  traffic.data_parallel_total = of_all_stages * config.tp * config.dp / time;
  return traffic;
}

}  // namespace ptdp
