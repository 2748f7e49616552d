// Constraints that a configuration must meet, and the checks that find the first one it violates.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/memory/memory.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/units.h"

namespace ptdp {

/// The constraints, in the order in which they are checked. A configuration counts under the first
/// that it violates; kConstraints says what each means.
enum class Constraint {
  kHeadsByTp,
  kFfnByTp,
  kGroupsByTp,
  kLayersByPp,
  kSequenceByCp,
  kHeadsByTpCp,
  kNotRunByStack,
  kSequenceByTp,
  kReplicasOfShards,
  kExpertsByEp,
  kExpertFfnByEtp,
  kExpertsWholeSequences,
  kExpertsByRankOrder,
  kOffloadedActivations,
  kOffloadedOptimizer,
  kLayersByPpVpp,
  kLayersPerStage,
  kInterleavedMinStages,
  kScheduleByPp,
  kRecomputedLayers,
  kDpBeyondBatch,
  kBatchByDp,
  kDpByReplicas,
  kRanksByExperts,
  kMicrobatchesByPp,
  kHostMemory,
  kScheduleByMicrobatches,
  kScheduleTooLong,
  kMemoryFirstStage,
  kMemoryLastStage,
  kMemoryMiddleStage,
  kNotExportable
};

/// A constraint's name and description.
struct ConstraintText {
  Constraint constraint;
  std::string_view name;         ///< Name in files: "heads_by_tp".
  std::string_view description;  ///< What is violated, for people.
};
/// Texts of all constraints, in the order of the enumerators.
inline constexpr std::array kConstraints = {
    ConstraintText{Constraint::kHeadsByTp, "heads_by_tp", "attention heads not divisible by tp"},
    ConstraintText{Constraint::kFfnByTp, "ffn_by_tp", "MLP width not divisible by tp"},
    ConstraintText{Constraint::kGroupsByTp, "groups_by_tp", "query groups not divisible by tp"},
    ConstraintText{Constraint::kLayersByPp, "layers_by_pp", "layers not divisible by pp"},
    ConstraintText{Constraint::kSequenceByCp, "sequence_by_cp",
                   "sequence length not divisible by cp (or, for two chunks per GPU, by 2 * cp)"},
    ConstraintText{Constraint::kHeadsByTpCp, "heads_by_tp_cp",
                   "attention heads or query groups not divisible by tp * cp (all-to-all)"},
    ConstraintText{Constraint::kNotRunByStack, "not_run_by_stack", "not run by this stack"},
    ConstraintText{Constraint::kSequenceByTp, "sequence_by_tp",
                   "a GPU's part of a sequence not divisible by tp (sequence parallelism)"},
    ConstraintText{Constraint::kReplicasOfShards, "replicas_of_shards",
                   "dp_replicate without ZeRO, or reshard_after_forward off where no weights are "
                   "gathered for a pass"},
    ConstraintText{Constraint::kExpertsByEp, "experts_by_ep", "experts not divisible by ep"},
    ConstraintText{Constraint::kExpertFfnByEtp, "expert_ffn_by_etp",
                   "width of an expert not divisible by etp"},
    ConstraintText{Constraint::kExpertsWholeSequences, "experts_whole_sequences",
                   "experts with tp above 1 but no sequence parallelism"},
    ConstraintText{Constraint::kExpertsByRankOrder, "experts_by_rank_order",
                   "experts with fewer or more replicas than the rest of the model, in an order "
                   "of ranks that puts replicas farthest apart"},
    ConstraintText{Constraint::kOffloadedActivations, "offloaded_activations",
                   "activations offloaded with a pipeline, with recomputation or of all layers"},
    ConstraintText{Constraint::kOffloadedOptimizer, "offloaded_optimizer",
                   "optimizer states offloaded that ZeRO does not shard"},
    ConstraintText{Constraint::kLayersByPpVpp, "layers_by_pp_vpp",
                   "layers not divisible by pp * vpp"},
    ConstraintText{Constraint::kLayersPerStage, "layers_per_stage",
                   "layers_per_stage is not one number per virtual stage, adding up to the layers"},
    ConstraintText{Constraint::kInterleavedMinStages, "interleaved_min_stages",
                   "too few stages for the stack's interleaved schedule"},
    ConstraintText{Constraint::kScheduleByPp, "schedule_by_pp",
                   "a pp or vpp that the schedule does not exist for"},
    ConstraintText{Constraint::kRecomputedLayers, "recomputed_layers",
                   "recompute_num_layers exceeds the layers of every virtual stage"},
    ConstraintText{Constraint::kDpBeyondBatch, "dp_beyond_batch",
                   "more replicas than sequences in the batch"},
    ConstraintText{Constraint::kBatchByDp, "batch_by_dp_b",
                   "batch not divisible by dp * micro_batch_size"},
    ConstraintText{Constraint::kDpByReplicas, "dp_by_dp_replicate",
                   "dp not divisible by dp_replicate"},
    ConstraintText{Constraint::kRanksByExperts, "ranks_by_experts",
                   "GPUs of a stage, tp * cp * dp / dp_replicate, not divisible by ep * etp"},
    ConstraintText{Constraint::kMicrobatchesByPp, "microbatches_by_pp",
                   "microbatches not divisible by pp (interleaved schedule)"},
    ConstraintText{Constraint::kHostMemory, "host_memory",
                   "more offloaded than the hosts hold, or nothing known about the hosts"},
    ConstraintText{Constraint::kScheduleByMicrobatches, "schedule_by_microbatches",
                   "a number of microbatches that the schedule does not exist for"},
    ConstraintText{Constraint::kScheduleTooLong, "schedule_too_long",
                   "a schedule with more actions than can be simulated"},
    ConstraintText{Constraint::kMemoryFirstStage, "memory_first_stage",
                   "out of memory on the first stage"},
    ConstraintText{Constraint::kMemoryLastStage, "memory_last_stage",
                   "out of memory on the last stage"},
    ConstraintText{Constraint::kMemoryMiddleStage, "memory_middle_stage",
                   "out of memory on a stage between the first and the last"},
    ConstraintText{Constraint::kNotExportable, "not_exportable",
                   "not run by the framework of --exportable"}};

/// Returns the name and description of a constraint.
[[nodiscard]] const ConstraintText& text_of(Constraint constraint);

/// Returns whether ranks of a tensor-parallel group can divide the key heads, or share them where
/// the stack runs so. A part of a head must then have whole elements.
[[nodiscard]] bool divides_key_heads(const Scenario& scenario, int tp);
/// Finds the first violated constraint among those that depend on tp only.
[[nodiscard]] std::optional<Constraint> find_tp_violation(const Scenario& scenario, int tp);
/// Finds the first violated constraint among those that depend on tp, pp and cp only, tp's first.
[[nodiscard]] std::optional<Constraint> find_split_violation(const PlannedJob& job);
/// Finds the first violated constraint among those on which neither dp nor the microbatch size has
/// an effect. The configuration must pass find_split_violation().
[[nodiscard]] std::optional<Constraint> find_variant_violation(const PlannedJob& job);
/// Finds the first violated constraint on dp and the microbatch size, memory of the GPUs aside. The
/// configuration must pass find_split_violation() and find_variant_violation().
[[nodiscard]] std::optional<Constraint> find_batch_violation(const PlannedJob& job);
/// Returns whether ep·etp divides the GPUs of a stage, tp·cp·dp/dp_replicate (kRanksByExperts).
[[nodiscard]] bool experts_divide_ranks(const ParallelConfig& config);
/// Returns whether find_batch_violation() checks the constraint before kRanksByExperts. The
/// constraint must be one that it checks.
[[nodiscard]] constexpr bool comes_before_experts(Constraint constraint) {
  return constraint < Constraint::kRanksByExperts;
}
/// Finds the first violated constraint on numbers alone, whatever the stack can run: whether a
/// configuration that somebody did run can be costed.
[[nodiscard]] std::optional<Constraint> find_divisibility_violation(const PlannedJob& job);
/// Finds the first violated constraint on split, variant or batch: whether a configuration can be
/// planned, memory of the GPUs aside.
[[nodiscard]] std::optional<Constraint> find_shape_violation(const PlannedJob& job);

/// Returns the scenario with a stack that runs every schedule which the cost model covers. A search
/// uses it to show what a schedule would bring.
[[nodiscard]] Scenario with_every_schedule(Scenario scenario);
/// Returns the scenario with a stack that also runs the schedules with stale weights.
[[nodiscard]] Scenario with_stale_weights(Scenario scenario);
/// Returns whether the stack runs the configuration's schedule. Every stack runs a configuration
/// without a pipeline.
[[nodiscard]] bool is_run_by_stack(const StackSpec& stack, const ParallelConfig& config);
/// Returns a remark to print behind a configuration: " (stale weights: another optimizer)", or
/// " (not run by megatron-lm-2021)" when the stack does not run its schedule, else an empty string.
[[nodiscard]] std::string stack_remark(const StackSpec& stack, const ParallelConfig& config);

/// Returns the device memory that plans may use: the GPU's, less a fraction `headroom` of it.
[[nodiscard]] Bytes usable_memory(const GpuSpec& gpu, double headroom);

/// Finds the first constraint that the configuration violates, memory of the GPUs last. A
/// configuration that needs exactly `capacity` bytes fits.
[[nodiscard]] std::optional<Constraint> find_violation(const PlannedJob& job, Bytes capacity);
/// Finds the stage that is out of memory: the first, the last, or one between, in this order. The
/// configuration must pass find_divisibility_violation(). Searches, validation and plans judge by
/// this.
[[nodiscard]] std::optional<Constraint> find_memory_violation(const PlannedJob& job,
                                                              Bytes capacity);
/// Finds the stage that is out of memory, given the memory of all stages in order: the first, the
/// last, or one between, in this order.
[[nodiscard]] std::optional<Constraint> find_memory_violation(
    std::span<const MemoryBreakdown> stages, Bytes capacity);

}  // namespace ptdp
