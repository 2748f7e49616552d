// Device memory of a GPU, by category and by pipeline stage.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/layer_activations.h"
#include "cost_model/memory/runtime_memory.h"
#include "cost_model/memory/stage_activations.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/rank_parameters.h"
#include "cost_model/stage/stage_layers.h"
#include "cost_model/units.h"

namespace ptdp {

/// Memory of the GPUs of one stage at their peak.
struct MemoryBreakdown {
  Bytes weights;
  Bytes gradients;
  Bytes optimizer;
  Bytes activations;  ///< Kept for backward passes, of all microbatches in flight.
  Bytes working_set;  ///< Of the pass being run: a recomputed layer, or the logits and the loss.
  Bytes buffers;      ///< Pipeline messages and gradient buckets.
  Bytes reserve;      ///< Context, NCCL, allocator slack: the stack's share.

  [[nodiscard]] Bytes total() const;
};

/// A category of MemoryBreakdown with its name.
struct MemoryTerm {
  std::string_view name;
  Bytes MemoryBreakdown::*size;
};
inline constexpr std::array kMemoryTerms = {
    MemoryTerm{"weights", &MemoryBreakdown::weights},
    MemoryTerm{"gradients", &MemoryBreakdown::gradients},
    MemoryTerm{"optimizer", &MemoryBreakdown::optimizer},
    MemoryTerm{"activations", &MemoryBreakdown::activations},
    MemoryTerm{"working_set", &MemoryBreakdown::working_set},
    MemoryTerm{"buffers", &MemoryBreakdown::buffers},
    MemoryTerm{"reserve", &MemoryBreakdown::reserve}};

/// Model state of a rank that holds so many parameters: weights, gradients and optimizer states,
/// the last over d with ZeRO stage 1 (18 bytes per parameter or 6 + 12/d, 20 or 4 + 16/d),
/// gradients too with 2, weights with 3 (16/d), where zero_sharding.h says so; weights that a
/// recipe for 8 bits covers with its copies (fp8_casts.h). Source:
/// Megatron-LM docs on the distributed optimizer; Rajbhandari et al. (arXiv:1910.02054) section 3.
[[nodiscard]] Bytes model_state(const StackSpec& stack, const ParallelConfig& config,
                                const RankParameters& held, const GpuSpec& gpu);

/// What each rank has at its peak of gradients, in parameters.
struct HeldGradients {
  RankParameters whole;
  RankParameters sharded;  ///< Those of which it has a shard.
};
/// Bytes of it.
[[nodiscard]] Bytes gradient_memory(const StackSpec& stack, const ParallelConfig& config,
                                    const HeldGradients& held);

/// Memory that no formula holds (context, NCCL, what the allocator leaves unused): the stack's
/// fraction of the device's, but no more than of one with 80 GiB, on which it was measured. A dozen
/// runs of Megatron-Bridge on GPUs of 186 and 279 GiB would not have fitted beside a fraction of
/// these.
[[nodiscard]] Bytes reserved_memory(const GpuSpec& gpu, const StackSpec& stack);

/// Puts what comes and goes on a rank of MemoryModel::kPtdp into its breakdown.
void set_activations(MemoryBreakdown& memory, const ActivationPeak& peak, const StackSpec& stack);

/// The memory of `stage`, without a look at the schedule's orders. The config must satisfy
/// find_violation's divisibility. Activations are those that the schedule holds at its peak
/// (pipeline.h for 1F1B and interleaved, the generator's bound for the others); where
/// weight gradients are put off, all of a microbatch's activations count until they are done,
/// though some could go before. By MemoryModel::kPtdp no less than memory_by_stage has
/// (activation_bound).
[[nodiscard]] MemoryBreakdown stage_memory(const PlannedJob& job, int stage);

/// The same of one stage after another, with what they share worked out once.
class StageMemories {
 public:
  /// Keeps a reference to the scenario.
  explicit StageMemories(const PlannedJob& job);

  /// `config` may differ from the constructor's in dp, ZeRO stage and layers per stage; `layers`
  /// are its own.
  [[nodiscard]] MemoryBreakdown of_stage(const ParallelConfig& config, const LayersOfStages& layers,
                                         int stage) const;
  /// Memory of a stage without activations, working set and buffers.
  [[nodiscard]] MemoryBreakdown state_of_stage(const ParallelConfig& config,
                                               const LayersOfStages& layers, int stage) const;
  /// stage_parameters().
  [[nodiscard]] RankParameters held(const ParallelConfig& config, const LayersOfStages& layers,
                                    int stage) const;
  /// The gradients of a stage that holds these parameters. Where a chunk's are reduced before the
  /// next one's are complete (reduces_by_chunk), those of two chunks, one of which is on its way,
  /// and of the ends of the model are whole. Never by MemoryModel::kPtdp, whose buffers stay.
  [[nodiscard]] HeldGradients gradients(const ParallelConfig& config, const LayersOfStages& layers,
                                        int stage, const RankParameters& held) const;
  /// The part of of_stage()'s memory that is proportional to the microbatch size, where as many
  /// microbatches are in flight. Of any stack but one of MemoryModel::kPtdp.
  [[nodiscard]] Bytes proportional_to_size(const MemoryBreakdown& memory) const {
    return memory.activations + memory.working_set + messages_;
  }

 private:
  [[nodiscard]] Bytes working_set(const ParallelConfig& config, const LayersOfStages& layers,
                                  int stage) const;
  [[nodiscard]] Bytes buffers(const ParallelConfig& config, const RankParameters& held) const;

  const Scenario& scenario_;
  KeptActivations kept_;
  ActivationStorage storage_;
  std::array<RankParameters, kLayerKinds.size()> of_layer_{};
  std::array<Bytes, kLayerKinds.size()> activations_{};  // of a layer, where it is recomputed
  Bytes messages_;  // buffers of messages between stages and within products
};

/// The same, all stages in order; by MemoryModel::kPtdp as the schedule's orders have it
/// (activation_peak), unless these have more than some millions of actions.
[[nodiscard]] std::vector<MemoryBreakdown> memory_by_stage(const PlannedJob& job);
/// The same with orders that have messages: those of `schedule_with_messages`, or others.
[[nodiscard]] std::vector<MemoryBreakdown> memory_by_stage(const PlannedJob& job,
                                                           const Schedule& schedule);

/// The orders of the configuration's schedule, without the messages between stages and with them.
[[nodiscard]] Schedule compute_schedule(const PlannedJob& job);
[[nodiscard]] Schedule schedule_with_messages(const PlannedJob& job);
/// Actions that it has.
[[nodiscard]] double num_actions_with_messages(const PlannedJob& job);

/// The first of the stages that hold most.
[[nodiscard]] int heaviest_of(const std::vector<MemoryBreakdown>& stages);

/// The heaviest stage of memory_by_stage: with equal layers the first (most microbatches in flight,
/// embedding) or the last (logits), for those between hold less than the first.
[[nodiscard]] int heaviest_stage(const PlannedJob& job);

/// Its total.
[[nodiscard]] Bytes peak_memory(const PlannedJob& job);

}  // namespace ptdp
