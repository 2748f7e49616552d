#include "cost_model/analytic/iteration.h"

#include <algorithm>
#include <cmath>

#include "cost_model/analytic/collectives.h"
#include "cost_model/analytic/context_parallel.h"
#include "cost_model/analytic/core_sharing.h"
#include "cost_model/analytic/expert_layer.h"
#include "cost_model/analytic/fp8_casts.h"
#include "cost_model/analytic/memory.h"
#include "cost_model/analytic/memory_bound.h"
#include "cost_model/analytic/offload.h"
#include "cost_model/analytic/recomputed_layers.h"
#include "cost_model/analytic/sharding.h"
#include "cost_model/analytic/step_terms.h"
#include "cost_model/simulation/pipeline_waits.h"

namespace ptdp {
namespace {

Seconds closed_form_bubble(const ParallelConfig& config, double microbatches, Seconds mean_stage) {
  double fill = has_stale_weights(config.schedule) ? 0.0 : config.pp - 1.0;
  if (config.schedule == ScheduleKind::kLoopedBfs) {
    // Too few microbatches to keep all stages busy until they come round to the next chunk.
    fill += std::max(config.pp - microbatches, 0.0) * (config.vpp - 1.0);
  }
  return fill / config.vpp * mean_stage;
}

/// Messages that block the pacing stage, in the closed form.
Seconds pipeline_message_time(const Scenario& scenario, const ParallelConfig& config,
                              const Placements& groups, double microbatches) {
  if (config.pp == 1) {
    return Seconds(0.0);
  }
  const auto exchange = [&](double messages) {
    return exchange_time(scenario, config, groups, messages);
  };
  const double fill = has_stale_weights(config.schedule) ? 0.0 : config.pp - 1.0;
  if (config.schedule == ScheduleKind::kLoopedBfs) {
    return (microbatches * config.vpp + fill) * 2.0 * exchange(1.0);
  }
  if (config.vpp == 1) {
    return (microbatches + fill) * 2.0 * exchange(1.0);
  }
  if (scenario.stack.pipeline_overlap >= PipelineOverlap::kInterleaved) {
    return fill * 2.0 * exchange(1.0);
  }
  return (microbatches * config.vpp + fill) * exchange(2.0);
}

/// Gradient reduction and parameter gathering that compute does not hide.
Seconds data_parallel_time(const Scenario& scenario, const ParallelConfig& config,
                           const MicrobatchCosts& costs, const Placements& groups,
                           const StageCosts& stage, const RankParameters& parameters) {
  if (!has_replicas(groups, parameters)) {
    return Seconds(0.0);
  }
  const ClusterSpec& cluster = scenario.cluster;
  const StackSpec& stack = scenario.stack;
  // Buckets go one after the other, the last with nothing left to hide it. Without interleaving one
  // microbatch's passes through this stage hide what they can of the others: the backward one
  // (which starts with the recomputation) the reduction, the next iteration's first forward one the
  // gathering. Interleaved, a chunk is reduced as soon as its last microbatch is through it, behind
  // the passes of p microbatches through each of the chunks before it, and gathered likewise.
  const double buckets = num_gradient_buckets(stack, config.pp, parameters.total());
  const double chunks = config.schedule == ScheduleKind::kInterleaved ? config.vpp : 1.0;
  const auto between = static_cast<double>(
      std::min<std::int64_t>(config.pp, num_microbatches(scenario.job.global_batch_size, config)));
  const auto exposed = [&](Seconds of_bucket, Seconds compute) {
    const Seconds all = of_bucket * buckets;
    const Seconds of_chunk = compute / chunks;
    const Seconds last = std::max(std::min(of_bucket, all / chunks), all / chunks - of_chunk);
    const Seconds behind = of_chunk * (1.0 + (chunks - 1.0) * between);
    const Seconds hidden = std::min(all - last, behind);
    return all - hidden + stack.overlap_slowdown * hidden;
  };
  const Seconds of_bucket = gathering_time(scenario, config, groups, parameters, buckets);
  const Seconds gathering = overlaps_gathering(stack, config.pp)
                                ? exposed(of_bucket, stage.forward.total())
                                : buckets * of_bucket;
  if (shards_gradients(config)) {
    const auto microbatches =
        static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
    const ShardingTime each = sharding_time(scenario, config, costs);
    return microbatches * (each.forward + each.backward) +
           (shards_weights(config) ? Seconds(0.0) : gathering);
  }
  const Seconds reduction = reduction_time(scenario, config, groups, parameters, buckets);
  if (!overlaps_reduction(stack, config.pp)) {
    return reduction + gathering +
           memory_bound_time(Bytes(parameters.total() * stack.gradient_staging_traffic),
                             cluster.gpu);
  }
  const Bytes copied(kBucketPasses * parameters.total() * stack.gradient_bucket_bytes);
  return exposed(reduction, stage.backward.total() + stage.recompute.total()) + gathering +
         memory_bound_time(copied, cluster.gpu);
}

/// Messages between stages, of a configuration with several.
void add_pipeline_traffic(const Scenario& scenario, const ParallelConfig& config, Seconds time,
                          Traffic& traffic) {
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  const bool is_scattered = config.sequence_parallel || scenario.stack.scatter_gather;
  const double elements = pipeline_elements(scenario.job.model, config.micro_batch_size, 1,
                                            (is_scattered ? config.tp : 1) * config.cp);
  // A pass through p·v chunks is p·v − 1 messages: a middle stage sends v in each of the two
  // passes; the first and the last, which is all there are of two stages, one less in one of
  // them, and of a V in both.
  const bool is_v = placement_of(config.schedule) == StagePlacement::kV;
  const Bytes message(element_bytes(scenario.stack.precision) * microbatches * elements);
  const double saved = is_v ? 2.0 : 1.0;
  const double sent = config.pp > 2 ? 2.0 * config.vpp : 2.0 * config.vpp - saved;
  traffic.pipeline = message * sent;
  // Every tp and dp rank has a link through the cut. Each of the two passes crosses it v times
  // forth, and v − 1 times back between the last stage and the first; a V v times in all.
  const double crossings = is_v ? 2.0 * config.vpp : 2.0 * (2.0 * config.vpp - 1.0);
  traffic.pipeline_bisection = message * crossings * config.tp * config.cp * config.dp / time;
}

/// Reduction of gradients, and gathering of parameters from shards.
void add_reduction_traffic(const Scenario& scenario, const ParallelConfig& config, Seconds time,
                           Traffic& traffic) {
  Bytes of_all_stages;  // of a rank of each
  const Placements groups = place_groups(config, scenario.cluster);
  const auto sent_over = [&](const GroupPlacement& group, double parameters, double weights) {
    const Bytes gradients(parameters * scenario.stack.reduced_gradient_bytes);
    return config.zero_stage >= 1
               ? ring_reduce_scatter_volume(gradients, group.size) +
                     ring_all_reduce_volume(gradients / static_cast<double>(group.size),
                                            groups.shard_replicas.size) +
                     ring_all_gather_volume(Bytes(weights), group.size)
               : ring_all_reduce_volume(gradients, group.size);
  };
  if (shards_gradients(config)) {
    traffic.data_parallel = of_all_stages = sharding_volume(scenario, config);
  }
  for (int stage = 0; stage < config.pp && !shards_gradients(config); ++stage) {
    const RankParameters held = stage_parameters(scenario.job.model, config, stage);
    const RankParameters weights = gathered_weights(scenario.stack, held);
    const Bytes sent = sent_over(groups.data, held.dense, weights.dense) +
                       sent_over(groups.expert_data, held.experts, weights.experts);
    traffic.data_parallel = std::max(traffic.data_parallel, sent);
    of_all_stages += sent;
  }
  traffic.data_parallel_total = of_all_stages * config.tp * config.cp * config.dp / time;
}

}  // namespace

Seconds CostBreakdown::total() const {
  Seconds sum;
  for (const CostTerm& term : kCostTerms) {
    sum += this->*term.time;
  }
  return sum;
}

bool is_in_closed_form(const ParallelConfig& config) {
  switch (config.schedule) {
    case ScheduleKind::kOneFOneB:
    case ScheduleKind::kInterleaved:
    case ScheduleKind::kGPipe:
    case ScheduleKind::kLoopedBfs:
    case ScheduleKind::kPipeDream:
    case ScheduleKind::kPipeDream2Bw:
      return true;
    case ScheduleKind::kZbH1:
    case ScheduleKind::kZbH2:
    case ScheduleKind::kZbV:
    case ScheduleKind::kVHalf:
    case ScheduleKind::kVMin:
    case ScheduleKind::kDualPipe:
    case ScheduleKind::kDualPipeV:
    case ScheduleKind::kZbAuto:
      return config.pp == 1;
  }
  return false;
}

CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config,
                             const MicrobatchCosts& costs,
                             const std::optional<PipelineWaits>& waits) {
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  const Placements groups = place_groups(config, scenario.cluster);
  const PipelineCosts pipeline = pipeline_costs(scenario, config, costs);
  const StageCosts& stage = pipeline.slowest;
  const PassTime passes = (stage.forward + stage.backward) * microbatches;
  const RankParameters parameters = most_parameters(scenario.job.model, config);

  CostBreakdown cost;
  cost.matmul = passes.matmul;
  cost.attention = passes.attention;
  cost.memory_bound = passes.memory_bound + (microbatches - 1.0) * share_accumulated(config) *
                                                stage.gradient_accumulation;
  cost.launch = passes.launch + microbatches * stage.overhead;
  cost.tensor_parallel = passes.tensor_parallel;
  cost.context_parallel = passes.context_parallel;
  // The forward passes that fill the pipeline and the backward ones that drain it have no others
  // beside them: (v−1)p + 1 chunks of the last stage, and p−1 of the stages before it.
  cost.expert_parallel =
      passes.expert_parallel + std::min<double>(config.pp, microbatches) * stage.hidden_dispatch;
  cost.recompute = microbatches * stage.recompute.total();
  cost.embedding_and_logits = microbatches * stage.ends.total();
  if (waits.has_value()) {
    cost.bubble = waits->bubble;
    cost.pipeline_messages = waits->messages;
  } else {
    cost.bubble = closed_form_bubble(config, microbatches, pipeline.mean);
    cost.pipeline_messages = pipeline_message_time(scenario, config, groups, microbatches);
  }
  cost.data_parallel = data_parallel_time(scenario, config, costs, groups, stage, parameters);
  cost.embedding_all_reduce = tied_reduction_time(scenario, config, groups);
  const OptimizerTime optimizer = optimizer_time(scenario, config, groups, parameters);
  cost.optimizer = optimizer.step + optimizer.norm;
  if (offloads_activations(config.offload)) {
    const OffloadTime each = activation_offload_time(scenario, config, costs);
    cost.offload = microbatches * (each.forward + each.backward);
  }
  if (config.schedule == ScheduleKind::kPipeDream) {
    // Every microbatch's gradient is reduced and applied for itself; none is added to another.
    cost.memory_bound = passes.memory_bound;
    cost.data_parallel = microbatches * cost.data_parallel;
    cost.embedding_all_reduce = microbatches * cost.embedding_all_reduce;
    cost.optimizer = microbatches * cost.optimizer;
  }
  const Seconds collectives = passes.collectives() + microbatches * (stage.recompute.collectives() +
                                                                     stage.ends.collectives());
  const Seconds work = microbatches * stage.total() - collectives + cost.optimizer;
  cost.core_sharing = core_sharing_time(config, scenario.cluster,
                                        microbatches * pipeline.mean - collectives + cost.optimizer,
                                        work + cost.bubble);
  return cost;
}

CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config,
                             const MicrobatchCosts& costs) {
  return iteration_cost(scenario, config, costs,
                        is_in_closed_form(config)
                            ? std::nullopt
                            : std::optional(simulated_waits(scenario, config, costs)));
}

CostBreakdown iteration_cost(const Scenario& scenario, const ParallelConfig& config) {
  return iteration_cost(scenario, config, microbatch_costs(scenario, config));
}

Seconds least_iteration_time(const Scenario& scenario, const ParallelConfig& config,
                             Seconds slowest_stage, Seconds mean_stage) {
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  return microbatches * slowest_stage + closed_form_bubble(config, microbatches, mean_stage);
}

Traffic iteration_traffic(const Scenario& scenario, const ParallelConfig& config, Seconds time) {
  const TransformerConfig& model = scenario.job.model;
  const auto microbatches =
      static_cast<double>(num_microbatches(scenario.job.global_batch_size, config));
  const int bytes = element_bytes(scenario.stack.precision);
  const ContextParallelVolume shared = context_parallel_volume(
      model, context_split(config, scenario.stack), scenario.stack.precision);
  const double gathered = gathered_activation_bytes(scenario.stack) / bytes;
  // What a layer that is recomputed sends once more than one that is not.
  const auto repeats = [&](RecomputeModule module) {
    return config.recompute == Recompute::kFull ||
           (config.recompute == Recompute::kSelective && config.recompute_modules.has(module));
  };
  const bool repeats_attention = repeats(RecomputeModule::kCoreAttention);
  const bool repeats_experts = repeats(RecomputeModule::kMoe);
  ParallelConfig kept = config;
  kept.recompute = Recompute::kNone;
  Traffic traffic;
  const Bytes to_experts = model.num_experts > 0 ? expert_volume(scenario, config) : Bytes(0.0);
  for (int stage = 0; stage < config.pp; stage += stage_step(model, config)) {
    const LayerCounts layers = layers_of_stage(model, config, stage);
    const LayerCounts recomputed = recomputed_of_stage(model, config, stage);
    const double share = 1.0 / num_copies(config);
    double elements = 0.0;
    double expert_passes = 0.0;  // forward, backward, and forward again
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      const LayerKind of = kLayerKinds[kind];
      const auto elements_of = [&](const ParallelConfig& as) {
        return tensor_parallel_elements(model, as, of, gathered,
                                        scenario.stack.keeps_gathered_inputs ? 0.0 : 1.0);
      };
      elements +=
          share * (recomputed[kind] * (elements_of(config) -
                                       unrepeated_elements(model, config, of, scenario.stack)) +
                   (layers[kind] - recomputed[kind]) * elements_of(kept));
      if (of.has_experts) {
        expert_passes += share * (2.0 * layers[kind] + (repeats_experts ? recomputed[kind] : 0.0));
      }
    }
    traffic.expert_parallel =
        std::max(traffic.expert_parallel, microbatches * expert_passes * to_experts);
    traffic.tensor_parallel =
        std::max(traffic.tensor_parallel, Bytes(bytes * microbatches * elements));
    const double again = repeats_attention ? total(recomputed) : 0.0;
    traffic.context_parallel =
        std::max(traffic.context_parallel,
                 share * microbatches *
                     ((total(layers) + again) * shared.forward + total(layers) * shared.backward));
  }
  if (config.pp > 1) {
    add_pipeline_traffic(scenario, config, time, traffic);
  }
  add_reduction_traffic(scenario, config, time, traffic);
  return traffic;
}

}  // namespace ptdp
