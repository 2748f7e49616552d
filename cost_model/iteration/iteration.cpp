// Breaks the time of an iteration down, and counts the bytes that it sends.
#include "cost_model/iteration/iteration.h"

#include <algorithm>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/layer/context_parallel.h"
#include "cost_model/layer/expert_layer.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/layer/split_key_heads.h"
#include "cost_model/layer/split_norms.h"
#include "cost_model/network/collectives.h"
#include "cost_model/operations/core_contention.h"
#include "cost_model/operations/memory_bound.h"
#include "cost_model/pipeline_rank/recomputed_layers.h"

namespace ptdp {
namespace {

/// Returns the time of gradient reduction and parameter gathering that one microbatch's passes
/// through a stage do not hide. It is all but what compute leaves room for, and at least the last
/// bucket.
Seconds data_parallel_time(const PlannedJob& job, const RankCosts& rank,
                           const RankParameters& parameters) {
  const Placements& groups = job.groups();
  if (!has_replicas(groups, parameters)) {
    return Seconds(0.0);
  }
  const StackSpec& stack = job.stack();
  const double buckets = num_gradient_buckets(stack, job.config().pp, parameters.total());
  const auto exposed = [&](Seconds of_bucket, Seconds compute) {
    const Seconds all = of_bucket * buckets;
    const Seconds hidden = std::min(all - of_bucket, compute);
    return all - hidden + stack.overlap_slowdown * hidden;
  };
  const Seconds of_gather = gathering_time(job, parameters, buckets);
  const Seconds gathering = overlaps_gathering(stack, job.config().pp)
                                ? exposed(of_gather, rank.forward.total())
                                : buckets * of_gather;
  const Seconds reduction = reduction_time(job, parameters, buckets);
  const bool is_hidden = overlaps_reduction(stack, job.config().pp);
  const Bytes copied(parameters.total() * (is_hidden ? kBucketPasses * stack.gradient_bucket_bytes
                                                     : stack.gradient_staging_traffic));
  return gathering + memory_bound_time(copied, job.cluster().gpu) +
         (is_hidden ? exposed(reduction, rank.backward.total() + rank.recompute.total())
                    : reduction);
}

/// Sets the traffic of messages between stages, for a configuration with several.
void add_pipeline_traffic(const PlannedJob& job, Seconds time, Traffic& traffic) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const bool is_scattered = job.config().sequence_parallel || job.stack().scatter_gather;
  const double elements = pipeline_elements(job.model(), job.config().micro_batch_size, 1,
                                            (is_scattered ? job.config().tp : 1) * job.config().cp);
  // A pass through p·v chunks is p·v − 1 messages. A middle rank sends v in each of the two passes.
  // The first and the last, which is all there are of two ranks, send one less in one of the
  // passes, and in a V in both.
  const bool is_v = traits_of(job.config().schedule).placement == StagePlacement::kV;
  const Bytes message(element_bytes(job.stack().precision) * microbatches * elements);
  const double saved = is_v ? 2.0 : 1.0;
  const double sent = job.config().pp > 2 ? 2.0 * job.config().vpp : 2.0 * job.config().vpp - saved;
  traffic.pipeline = message * sent;
  // Every tp, cp and dp rank has a link through the cut. Each of the two passes crosses it v times
  // forth, and v − 1 times back between the last rank and the first. In a V it crosses v times in
  // all.
  const double crossings = is_v ? 2.0 * job.config().vpp : 2.0 * (2.0 * job.config().vpp - 1.0);
  traffic.pipeline_bisection =
      message * crossings * job.config().tp * job.config().cp * job.config().dp / time;
}

/// Sets the traffic of reducing gradients and of gathering parameters from shards.
void add_reduction_traffic(const PlannedJob& job, Seconds time, Traffic& traffic) {
  Bytes of_all_stages;  // sent by one rank of each stage
  const Placements& groups = job.groups();
  const auto sent_over = [&](const GroupPlacement& group, double parameters, double weights) {
    const Bytes gradients(parameters * job.stack().reduced_gradient_bytes);
    const Bytes reduced = all_reduces(job.stack(), job.config())
                              ? ring_all_reduce_volume(gradients, group.size)
                              : ring_reduce_scatter_volume(gradients, group.size);
    return shards_optimizer(job.config())
               ? reduced +
                     ring_all_reduce_volume(gradients / static_cast<double>(group.size),
                                            groups.shard_replicas.size) +
                     ring_all_gather_volume(Bytes(weights), group.size)
               : reduced;
  };
  if (shards_gradients(job.config())) {
    traffic.data_parallel = of_all_stages = sharding_volume(job);
  }
  for (int rank = 0; rank < job.config().pp && !shards_gradients(job.config()); ++rank) {
    const RankParameters held = rank_parameters(job.model(), job.config(), rank);
    const RankParameters weights = gathered_weights(job.stack(), held);
    const Bytes sent = sent_over(groups.data, held.dense, weights.dense) +
                       sent_over(groups.expert_data, held.experts, weights.experts);
    traffic.data_parallel = std::max(traffic.data_parallel, sent);
    of_all_stages += sent;
  }
  traffic.data_parallel_total =
      of_all_stages * job.config().tp * job.config().cp * job.config().dp / time;
}

}  // namespace

Seconds beyond_rounding(Seconds left, Seconds whole) {
  constexpr double rounding = 1e-12;
  return left > rounding * whole ? left : Seconds(0.0);
}

Seconds CostBreakdown::total() const {
  Seconds sum;
  for (const CostTerm& term : kCostTerms) {
    sum += this->*term.time;
  }
  return sum;
}

namespace {

/// Returns what all microbatches take on the GPU that paces them. The waits for other stages and
/// the end of the step are left out.
CostBreakdown cost_of_pacing_stage(const PlannedJob& job, const PipelineCosts& pipeline) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const RankCosts& rank = pipeline.slowest;
  const PassTime passes = (rank.forward + rank.backward) * microbatches;
  CostBreakdown cost;
  cost.matmul = passes.matmul;
  cost.attention = passes.attention;
  // PipeDream applies the gradient of every microbatch by itself; none is added to another.
  const double accumulations =
      traits_of(job.config().schedule).applies_every_microbatch ? 0.0 : microbatches - 1.0;
  cost.memory_bound = passes.memory_bound +
                      accumulations * share_accumulated(job.config()) * rank.gradient_accumulation;
  cost.launch = passes.launch + microbatches * rank.overhead;
  cost.tensor_parallel = passes.tensor_parallel;
  cost.context_parallel = passes.context_parallel;
  cost.expert_parallel = passes.expert_parallel;
  cost.recompute = microbatches * rank.recompute.total();
  cost.embedding_and_logits = microbatches * rank.ends.total();
  if (shards_gradients(job.config())) {
    const ShardingTime each = sharding_time(job);
    cost.data_parallel = microbatches * (each.forward + each.backward);
  }
  if (offloads_activations(job.config().offload)) {
    const OffloadTime each = activation_offload_time(job);
    cost.offload = microbatches * (each.forward + each.backward);
  }
  return cost;
}

/// Parts at the end of a step, each as long as it takes alone.
struct StepEnd {
  Seconds tied;       ///< All-reduce of the tied embedding's gradient.
  Seconds optimizer;  ///< Norm and optimizer step of the rank that holds most parameters.
};
StepEnd end_of_step(const PlannedJob& job) {
  const OptimizerTime optimizer = optimizer_time(job, most_parameters(job.model(), job.config()));
  return {.tied = tied_reduction_time(job), .optimizer = optimizer.norm + optimizer.step};
}

/// Returns the time that ranks wait for a core of their node while others wait for nothing but
/// their pipeline's `bubble`.
Seconds core_sharing_of(const PlannedJob& job, const PipelineCosts& pipeline, Seconds bubble,
                        Seconds optimizer) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const RankCosts& rank = pipeline.slowest;
  const Seconds collectives =
      microbatches * ((rank.forward + rank.backward).collectives() + rank.recompute.collectives() +
                      rank.ends.collectives());
  return core_contention_time(job.config(), job.cluster(),
                              microbatches * pipeline.mean - collectives + optimizer,
                              microbatches * rank.total() - collectives + optimizer + bubble);
}

/// Returns the cost of an iteration that never fills or drains its pipeline.
CostBreakdown cost_without_flush(const PlannedJob& job) {
  const auto microbatches = static_cast<double>(job.microbatches());
  const PipelineCosts pipeline = pipeline_costs(job);
  CostBreakdown cost = cost_of_pacing_stage(job, pipeline);
  const double updates =
      traits_of(job.config().schedule).applies_every_microbatch ? microbatches : 1.0;
  const StepEnd end = end_of_step(job);
  cost.expert_parallel += pipeline.slowest.hidden_dispatch;
  cost.pipeline_messages = job.config().pp == 1
                               ? Seconds(0.0)
                               : microbatches * 2.0 * exchange_time(job, job.groups(), 1.0);
  cost.data_parallel = updates * data_parallel_time(job, pipeline.slowest,
                                                    most_parameters(job.model(), job.config()));
  cost.embedding_all_reduce = updates * end.tied;
  cost.optimizer = updates * end.optimizer;
  cost.core_contention = core_sharing_of(job, pipeline, Seconds(0.0), cost.optimizer);
  return cost;
}

/// Takes up to `most` from `left`, which it lowers. Returns what it took.
Seconds take(Seconds most, Seconds& left) {
  const Seconds taken = std::clamp(most, Seconds(0.0), std::max(left, Seconds(0.0)));
  left = left - taken;
  return taken;
}

}  // namespace

CostBreakdown iteration_cost(const PlannedJob& job) {
  StepSimulations simulations;
  return iteration_cost(job, simulations);
}

CostBreakdown iteration_cost(const PlannedJob& job, StepSimulations& simulations) {
  if (!is_simulated(job.config())) {
    return cost_without_flush(job);
  }
  const PipelineCosts pipeline = pipeline_costs(job);
  CostBreakdown cost = cost_of_pacing_stage(job, pipeline);
  const StepParts parts = simulations.parts(job);
  Seconds waits = parts.passes - cost.total();
  cost.expert_parallel +=
      take(std::min<double>(job.config().pp, static_cast<double>(job.microbatches())) *
               pipeline.slowest.hidden_dispatch,
           waits);
  cost.bubble = beyond_rounding(waits, parts.whole);
  cost.pipeline_messages = parts.with_messages - parts.passes;
  Seconds rest = parts.whole - parts.with_messages;
  const StepEnd end = end_of_step(job);
  cost.optimizer = take(end.optimizer, rest);
  cost.embedding_all_reduce = take(end.tied, rest);
  cost.data_parallel += beyond_rounding(rest, parts.whole);
  cost.core_contention = core_sharing_of(job, pipeline, cost.bubble, cost.optimizer);
  return cost;
}

namespace {

/// Whether the job's time is that of its simulated step.
bool is_its_step(const PlannedJob& job) {
  return is_simulated(job.config()) && !shares_cores(job.config(), job.cluster());
}

}  // namespace

Seconds iteration_time(const PlannedJob& job, StepSimulations& simulations) {
  return is_its_step(job) ? simulations.simulate(job) : iteration_cost(job, simulations).total();
}

Seconds IterationTimes::find(const PlannedJob& job) {
  const auto found = times_.find(job.config());
  return found != times_.end()
             ? found->second
             : times_.emplace(job.config(), iteration_time(job, simulations_)).first->second;
}

StepBound IterationTimes::bound(const PlannedJob& job) {
  if (!is_its_step(job) || times_.contains(job.config())) {
    return {.time = find(job), .is_exact = true};
  }
  const StepBound bound = simulations_.bound(job);
  if (bound.is_exact) {
    keep(job.config(), bound.time);
  }
  return bound;
}

std::optional<Seconds> IterationTimes::find_known(const ParallelConfig& config) const {
  const auto found = times_.find(config);
  return found != times_.end() ? std::optional(found->second) : std::nullopt;
}

Seconds least_iteration_time(const PlannedJob& job, const LeastPasses& passes) {
  const auto microbatches = static_cast<double>(job.microbatches());
  Seconds least = passes.time(microbatches);
  if (shards_gradients(job.config())) {
    const ShardingTime each = sharding_time(job);
    least += microbatches * (each.forward + each.backward);
  }
  if (job.stack().optimizer_post_validation) {
    return least;
  }
  const StepEnd end = end_of_step(job);
  // Weight gradients that are put off may come after the tied embedding's all-reduce.
  return least + end.optimizer +
         (traits_of(job.config().schedule).splits_backward ? Seconds(0.0) : end.tied);
}

Traffic iteration_traffic(const PlannedJob& job, Seconds time) {
  const TransformerConfig& model = job.model();
  const auto microbatches = static_cast<double>(job.microbatches());
  const int bytes = element_bytes(job.stack().precision);
  const ContextParallelVolume shared = context_parallel_volume(
      model, context_sharing(job.config(), job.stack()), job.stack().precision);
  const double gathered = gathered_activation_bytes(job.stack()) / bytes;
  // A recomputed layer sends some data once more than one that is not.
  const bool repeats_attention = job.config().repeats_module(RecomputeModule::kCoreAttention);
  const bool repeats_experts = job.config().repeats_module(RecomputeModule::kMoe);
  ParallelConfig kept = job.config();
  kept.recompute = Recompute::kNone;
  Traffic traffic;
  const Bytes to_experts =
      model.num_experts > 0 ? expert_volume(job.scenario(), job.config()) : Bytes(0.0);
  for (int rank = 0; rank < job.config().pp; rank += rank_step(model, job.config())) {
    const LayerCounts layers = layers_of_rank(model, job.config(), rank);
    const LayerCounts recomputed = recomputed_of_rank(model, job.config(), rank);
    const double share = 1.0 / num_copies(job.config());
    double elements = 0.0;
    double expert_passes = 0.0;  // forward, backward, and repeated forward ones
    for (std::size_t kind = 0; kind < layers.size(); ++kind) {
      const LayerKind of = kLayerKinds[kind];
      const auto elements_of = [&](const ParallelConfig& as) {
        // An all-reduce of accumulators, in elements of which each is sent once.
        const double sums = 2.0 * norm_sums_of_token(model, as.tp, job.stack()) *
                            accumulator_bytes(job.stack().precision) / bytes;
        return tensor_parallel_elements(
            model, as, of, gathered, job.stack().keeps_gathered_inputs ? 0.0 : 1.0,
            gathered_head_width(model, as.tp, job.stack().can_run.split_key_heads) + sums);
      };
      elements +=
          share * (recomputed[kind] * (elements_of(job.config()) -
                                       unrepeated_elements(model, job.config(), of, job.stack())) +
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
  if (job.config().pp > 1) {
    add_pipeline_traffic(job, time, traffic);
  }
  add_reduction_traffic(job, time, traffic);
  return traffic;
}

}  // namespace ptdp
