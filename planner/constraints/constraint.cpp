// Checks the constraints of a configuration in their order.
#include "planner/constraints/constraint.h"

#include <algorithm>
#include <numeric>

#include "cost_model/contains.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/offload.h"
#include "cost_model/iteration/schedule_shape.h"
#include "cost_model/iteration/sharding.h"
#include "cost_model/layer/context_parallel.h"
#include "cost_model/memory/memory.h"
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

constexpr double kMostActions = 2e7;  // takes some tenths of a second to simulate, and 240 MB

/// Returns whether modules are recomputed whose results delayed scaling would cast, and count,
/// twice. Source: Megatron-Core, transformer_config.py (no moe_act and no layernorm with delayed
/// scaling).
bool recomputes_delayed_casts(const StackSpec& stack, RecomputeModules modules) {
  return has_delayed_scaling(stack) &&
         (modules.has(RecomputeModule::kMoeActivation) || modules.has(RecomputeModule::kLayerNorm));
}

/// Returns whether the stack can recompute as the configuration says. Recomputing every second
/// product is known for layers like Llama's only.
bool recomputes(const PlannedJob& job) {
  const StackCapabilities& can_run = job.stack().can_run;
  const TransformerConfig& model = job.model();
  if (repeats(job.config().recompute) == Repeats::kModules &&
      (!job.config().recompute_modules.are_among(can_run.recompute_modules) ||
       recomputes_delayed_casts(job.stack(), job.config().recompute_modules) ||
       (job.config().recompute_modules.has(RecomputeModule::kEverySecondProduct) &&
        (has_latent_attention(model) || model.num_experts > 0 || has_relative_positions(model))))) {
    return false;
  }
  return contains(can_run.recompute, job.config().recompute) &&
         (!job.config().recomputes_by_layers() ||
          contains(can_run.recompute_methods, job.config().recompute_method));
}

/// Returns whether the stack norms the queries and keys of the model. This project's runtime has
/// RMS norms over the heads of several tensor-parallel ranks, and no layer norms.
bool norms_heads(const PlannedJob& job) {
  return job.stack().memory_model != MemoryModel::kPtdp ||
         job.model().normalization == Normalization::kRmsNorm ||
         !splits_norms(job.model(), job.config().tp);
}

/// Returns whether a stack's shards of a ZeRO stage can have replicas.
bool can_replicate(const StackCapabilities& can_run, int zero_stage) {
  return can_run.hybrid_sharding || (can_run.optimizer_instances && zero_stage == 1);
}

bool is_run_by(const PlannedJob& job) {
  const StackCapabilities& can_run = job.stack().can_run;
  return is_run_by_stack(job.stack(), job.config()) && recomputes(job) && norms_heads(job) &&
         contains(can_run.zero_stages, job.config().zero_stage) &&
         (job.config().rank_order == RankOrder{} ||
          contains(can_run.rank_orders, job.config().rank_order)) &&
         (job.config().offload == Offload::kNone ||
          contains(can_run.offload, job.config().offload)) &&
         (can_run.tensor_parallel || job.config().tp == 1) &&
         (can_run.sequence_parallel || !job.config().sequence_parallel) &&
         ((can_run.context_parallel && !has_relative_positions(job.model())) ||
          job.config().cp == 1) &&
         (can_replicate(can_run, job.config().zero_stage) || job.config().dp_replicate == 1) &&
         (can_run.kept_weights || job.config().reshard_after_forward) &&
         (can_run.uneven_layers || job.config().layers_per_stage.empty()) &&
         (can_run.expert_parallel || job.model().num_experts == 0);
}

/// Finds the size for which the configuration's schedule does not exist, if any.
std::optional<ShapeConflict> find_schedule_conflict(const ParallelConfig& config,
                                                    std::int64_t microbatches) {
  return traits_of(config.schedule).find_conflict(schedule_sizes(config, microbatches));
}

/// Returns kScheduleByPp when the schedule does not exist for the stages and chunks, whatever the
/// batch. It tries four fillings of the pipeline, an even number that is enough for every schedule.
std::optional<Constraint> find_schedule_violation(const ParallelConfig& config) {
  if (config.pp > 1 && find_schedule_conflict(config, std::int64_t{4} * config.pp).has_value()) {
    return Constraint::kScheduleByPp;
  }
  return std::nullopt;
}

/// Finds a violated constraint on experts that does not depend on the number of replicas. Without
/// sequence parallelism every rank has all tokens of its tensor-parallel group, and would route
/// each token once per rank: Megatron-Core refuses to train so.
std::optional<Constraint> find_expert_violation(const TransformerConfig& model,
                                                const ParallelConfig& config) {
  if (model.num_experts == 0) {
    return config.ep * config.etp > 1 ? std::optional(Constraint::kExpertsByEp) : std::nullopt;
  }
  if (model.num_experts % config.ep != 0) {
    return Constraint::kExpertsByEp;
  }
  if (model.moe_ffn_hidden_size % config.etp != 0) {
    return Constraint::kExpertFfnByEtp;
  }
  if (config.tp > 1 && !config.sequence_parallel) {
    return Constraint::kExpertsWholeSequences;
  }
  if (!places_experts(config)) {
    return Constraint::kExpertsByRankOrder;
  }
  return std::nullopt;
}

/// Finds a violated constraint on offloading, apart from the room that hosts have. Source:
/// Megatron-Core, transformer_config.py (cpu_offloading) and optimizer/__init__.py
/// (optimizer_cpu_offload).
std::optional<Constraint> find_offload_violation(const TransformerConfig& model,
                                                 const ParallelConfig& config) {
  if (offloads_activations(config.offload) &&
      (config.pp > 1 || repeats(config.recompute) != Repeats::kNothing ||
       config.offload_num_layers >= model.num_layers)) {
    return Constraint::kOffloadedActivations;
  }
  if (offloads_optimizer(config.offload) && config.zero_stage == 0) {
    return Constraint::kOffloadedOptimizer;
  }
  return std::nullopt;
}

/// Returns whether layers_per_stage has a number for each virtual stage and holds all layers.
bool is_spread(const ParallelConfig& config, std::int64_t num_layers) {
  const std::vector<int>& layers = config.layers_per_stage;
  return static_cast<std::int64_t>(layers.size()) == std::int64_t{config.pp} * config.vpp &&
         std::accumulate(layers.begin(), layers.end(), std::int64_t{0}) == num_layers;
}

}  // namespace

const ConstraintText& text_of(Constraint constraint) {
  return *std::find_if(
      kConstraints.begin(), kConstraints.end(),
      [constraint](const ConstraintText& entry) { return entry.constraint == constraint; });
}

bool divides_key_heads(const Scenario& scenario, int tp) {
  const TransformerConfig& model = scenario.job.model;
  const int groups = model.num_query_groups;
  if (!splits_key_heads(model, tp)) {
    return groups % tp == 0;
  }
  return scenario.stack.can_run.split_key_heads != SplitKeyHeads::kNever && tp % groups == 0 &&
         model.kv_channels % (tp / groups) == 0;
}

std::optional<Constraint> find_tp_violation(const Scenario& scenario, int tp) {
  const TransformerConfig& model = scenario.job.model;
  if (model.num_attention_heads % tp != 0) {
    return Constraint::kHeadsByTp;
  }
  const bool has_dense_layers = num_expert_layers(model) < model.num_layers;
  if ((has_dense_layers && model.ffn_hidden_size % tp != 0) ||
      model.moe_shared_expert_intermediate_size % tp != 0) {
    return Constraint::kFfnByTp;
  }
  if (!divides_key_heads(scenario, tp)) {
    return Constraint::kGroupsByTp;
  }
  return std::nullopt;
}

std::optional<Constraint> find_split_violation(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  if (const auto violation = find_tp_violation(job.scenario(), job.config().tp)) {
    return violation;
  }
  if (job.config().layers_per_stage.empty() && model.num_layers % job.config().pp != 0) {
    return Constraint::kLayersByPp;
  }
  const ContextSharing split = context_sharing(job.config(), job.stack());
  if (!divides_sequence(model, split)) {
    return Constraint::kSequenceByCp;
  }
  if (!divides_heads(model, split)) {
    return Constraint::kHeadsByTpCp;
  }
  return std::nullopt;
}

std::optional<Constraint> find_spread_violation(const PlannedJob& job) {
  const TransformerConfig& model = job.model();
  if (job.config().sequence_parallel && model.seq_length / job.config().cp % job.config().tp != 0) {
    return Constraint::kSequenceByTp;
  }
  if ((job.config().dp_replicate > 1 && job.config().zero_stage == 0) ||
      (!job.config().reshard_after_forward && !shards_weights(job.config()))) {
    return Constraint::kReplicasOfShards;
  }
  if (const auto violation = find_expert_violation(model, job.config())) {
    return violation;
  }
  if (const auto violation = find_offload_violation(model, job.config())) {
    return violation;
  }
  if (!job.config().layers_per_stage.empty()) {
    if (!is_spread(job.config(), model.num_layers)) {
      return Constraint::kLayersPerStage;
    }
  } else if (model.num_layers % (std::int64_t{job.config().pp} * job.config().vpp) != 0) {
    return Constraint::kLayersByPpVpp;
  }
  return std::nullopt;
}

bool is_run_by_stack(const StackSpec& stack, const ParallelConfig& config) {
  return config.pp == 1 || contains(stack.can_run.schedules, config.schedule);
}

std::string stack_remark(const StackSpec& stack, const ParallelConfig& config) {
  if (!traits_of(config.schedule).is_synchronous) {
    return " (stale weights: another optimizer)";
  }
  return is_run_by_stack(stack, config) ? "" : " (not run by " + stack.name + ")";
}

Scenario with_every_schedule(Scenario scenario) {
  std::vector<ScheduleKind>& schedules = scenario.stack.can_run.schedules;
  schedules.clear();
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    schedules.push_back(schedule.value);
  }
  return scenario;
}

Scenario with_stale_weights(Scenario scenario) {
  std::vector<ScheduleKind>& schedules = scenario.stack.can_run.schedules;
  for (const NamedValue<ScheduleKind>& schedule : kScheduleNames) {
    if (!traits_of(schedule.value).is_synchronous) {
      schedules.push_back(schedule.value);
    }
  }
  return scenario;
}

std::optional<Constraint> find_variant_violation(const PlannedJob& job) {
  const StackCapabilities& can_run = job.stack().can_run;
  if (!is_run_by(job)) {
    return Constraint::kNotRunByStack;
  }
  if (const auto violation = find_spread_violation(job)) {
    return violation;
  }
  if (traits_of(job.config().schedule).has_groups &&
      job.config().pp < can_run.interleaved_min_stages) {
    return Constraint::kInterleavedMinStages;
  }
  if (job.config().recompute_num_layers > longest_layer_range(job.model(), job.config())) {
    return Constraint::kRecomputedLayers;
  }
  return find_schedule_violation(job.config());
}

bool experts_divide_ranks(const ParallelConfig& config) {
  return static_cast<std::int64_t>(config.tp) * config.cp * (config.dp / config.dp_replicate) %
             (std::int64_t{config.ep} * config.etp) ==
         0;
}

std::optional<Constraint> find_batch_violation(const PlannedJob& job) {
  const std::int64_t batch = job.scenario().job.global_batch_size;
  if (job.config().dp > batch) {
    return Constraint::kDpBeyondBatch;
  }
  const std::int64_t batch_per_replica = batch / job.config().dp;
  if (batch % job.config().dp != 0 || batch_per_replica % job.config().micro_batch_size != 0) {
    return Constraint::kBatchByDp;
  }
  if (job.config().dp % job.config().dp_replicate != 0) {
    return Constraint::kDpByReplicas;
  }
  if (!experts_divide_ranks(job.config())) {
    return Constraint::kRanksByExperts;
  }
  if (traits_of(job.config().schedule).has_groups &&
      batch_per_replica / job.config().micro_batch_size % job.config().pp != 0) {
    return Constraint::kMicrobatchesByPp;
  }
  if (job.config().offload != Offload::kNone &&
      (!job.cluster().host.has_value() || host_memory(job) > job.cluster().host->memory)) {
    return Constraint::kHostMemory;
  }
  const std::int64_t microbatches = batch_per_replica / job.config().micro_batch_size;
  if (job.config().pp > 1 && find_schedule_conflict(job.config(), microbatches).has_value()) {
    return Constraint::kScheduleByMicrobatches;
  }
  if (is_simulated(job.config()) && simulated_actions(job.config(), microbatches) > kMostActions) {
    return Constraint::kScheduleTooLong;
  }
  return std::nullopt;
}

std::optional<Constraint> find_divisibility_violation(const PlannedJob& job) {
  if (const auto violation = find_split_violation(job)) {
    return violation;
  }
  if (const auto violation = find_spread_violation(job)) {
    return violation;
  }
  if (job.config().recompute_num_layers > longest_layer_range(job.model(), job.config())) {
    return Constraint::kRecomputedLayers;
  }
  if (const auto violation = find_schedule_violation(job.config())) {
    return violation;
  }
  return find_batch_violation(job);
}

std::optional<Constraint> find_shape_violation(const PlannedJob& job) {
  if (const auto violation = find_split_violation(job)) {
    return violation;
  }
  if (const auto violation = find_variant_violation(job)) {
    return violation;
  }
  return find_batch_violation(job);
}

Bytes usable_memory(const GpuSpec& gpu, double headroom) {
  return gpu.memory * (1.0 - headroom);
}

std::optional<Constraint> find_violation(const PlannedJob& job, Bytes capacity) {
  if (const auto violation = find_shape_violation(job)) {
    return violation;
  }
  return find_memory_violation(job, capacity);
}

std::optional<Constraint> find_memory_violation(const PlannedJob& job, Bytes capacity) {
  if (job.stack().memory_model == MemoryModel::kPtdp) {
    return find_memory_violation(memory_by_rank(job), capacity);
  }
  const LayersOfRanks layers(job.model(), job.config());
  const MemoryOfRanks memories(job);
  const auto fits = [&](int rank) {
    return memories.of_rank(job.config(), layers, rank).total() <= capacity;
  };
  if (!fits(0)) {
    return Constraint::kMemoryFirstStage;
  }
  const int last = job.config().pp - 1;
  if (!fits(last)) {
    return Constraint::kMemoryLastStage;
  }
  const int step = rank_step(job.model(), job.config());
  for (int rank = step; rank < last; rank += step) {
    if (!fits(rank)) {
      return Constraint::kMemoryMiddleStage;
    }
  }
  return std::nullopt;
}

std::optional<Constraint> find_memory_violation(std::span<const MemoryBreakdown> stages,
                                                Bytes capacity) {
  if (stages.front().total() > capacity) {
    return Constraint::kMemoryFirstStage;
  }
  if (stages.back().total() > capacity) {
    return Constraint::kMemoryLastStage;
  }
  const bool fits = std::all_of(stages.begin(), stages.end(), [&](const MemoryBreakdown& stage) {
    return stage.total() <= capacity;
  });
  return fits ? std::nullopt : std::optional(Constraint::kMemoryMiddleStage);
}

}  // namespace ptdp
