// Device memory of a GPU, by category and by pipeline rank.
#pragma once

#include <array>
#include <string_view>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/layer_activations.h"
#include "cost_model/memory/rank_activations.h"
#include "cost_model/memory/runtime_memory.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_layers.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/units.h"

namespace ptdp {

/// Memory of a GPU of one pipeline rank at its peak, by category.
struct MemoryBreakdown {
  Bytes weights;      ///< Weights, all versions and copies in 8 bits included.
  Bytes gradients;    ///< Gradients, whole or in shards.
  Bytes optimizer;    ///< Optimizer states that stay on the GPU.
  Bytes activations;  ///< Activations kept for backward passes, of all microbatches in flight.
  /// Tensors of the pass being run: a recomputed layer, or the logits and the loss.
  Bytes working_set;
  Bytes buffers;  ///< Pipeline messages, and gradient buckets or buffers of full sharding.
  Bytes reserve;  ///< The stack's share for context, NCCL and allocator slack: reserved_memory().

  [[nodiscard]] Bytes total() const;
};

/// A category of MemoryBreakdown with its name in files.
struct MemoryTerm {
  std::string_view name;
  Bytes MemoryBreakdown::*size;
};
/// All categories of MemoryBreakdown, with their names in files.
inline constexpr std::array kMemoryTerms = {
    MemoryTerm{"weights", &MemoryBreakdown::weights},
    MemoryTerm{"gradients", &MemoryBreakdown::gradients},
    MemoryTerm{"optimizer", &MemoryBreakdown::optimizer},
    MemoryTerm{"activations", &MemoryBreakdown::activations},
    MemoryTerm{"working_set", &MemoryBreakdown::working_set},
    MemoryTerm{"buffers", &MemoryBreakdown::buffers},
    MemoryTerm{"reserve", &MemoryBreakdown::reserve}};

/// Returns the model state of a rank that holds `held` parameters: weights, gradients and optimizer
/// states. ZeRO stage 1 splits the last over d (18 bytes per parameter or 6 + 12/d, 20 or 4 +
/// 16/d). Stage 2 splits gradients too, and stage 3 weights (16/d), where zero_sharding.h says so.
/// Weights that a recipe for 8 bits covers count with its copies (fp8_casts.h). Source: Megatron-LM
/// docs on the distributed optimizer; Rajbhandari et al. (arXiv:1910.02054) section 3.
[[nodiscard]] Bytes model_state(const StackSpec& stack, const ParallelConfig& config,
                                const RankParameters& held, const GpuSpec& gpu);

/// Gradients that a rank has at its peak, in parameters.
struct HeldGradients {
  RankParameters whole;  ///< Parameters of which it has the whole gradients.
  /// Parameters of which it has a shard of the gradients; counted before sharding.
  RankParameters sharded;
};
/// Returns the bytes of a rank's gradients at their peak.
[[nodiscard]] Bytes gradient_memory(const StackSpec& stack, const ParallelConfig& config,
                                    const HeldGradients& held);

/// Returns the memory that no formula holds (context, NCCL, what the allocator leaves unused). It
/// is the stack's fraction of the device's memory, but no more than of 80 GiB, on which it was
/// measured. A dozen runs of Megatron-Bridge on GPUs of 186 and 279 GiB would not have fitted
/// beside a fraction of these.
[[nodiscard]] Bytes reserved_memory(const GpuSpec& gpu, const StackSpec& stack);

/// Messages that a pipeline rank has room for: one received and one sent, in each direction at
/// once.
inline constexpr double kMessageBuffers = 4.0;
/// Returns the memory of the buckets that an overlapped reduction copies gradients of `parameters`
/// parameters to.
[[nodiscard]] Bytes bucket_memory(const StackSpec& stack, int pp, double parameters);

/// Puts the activation peak of a rank of MemoryModel::kPtdp into its breakdown, with the stack's
/// workspace.
void set_activations(MemoryBreakdown& memory, const ActivationPeak& peak, const StackSpec& stack);

/// Returns the memory of pipeline rank `stage` (0 … p−1), without a look at the schedule's orders.
/// The config must satisfy find_violation's divisibility.
///
/// Activations are those that the schedule holds at its peak: pipeline.h for 1F1B and interleaved,
/// the generator's bound for the others. Where weight gradients are put off, all of a microbatch's
/// activations count until they are done, though some could go before. With MemoryModel::kPtdp it
/// is no less than memory_by_rank() has (activation_bound()).
[[nodiscard]] MemoryBreakdown rank_memory(const PlannedJob& job, int rank);

/// Computes rank_memory() for many pipeline ranks and configurations of one scenario, caching what
/// they share. A `config` that its functions take may differ from the constructor's in dp, ZeRO
/// stage and layers per stage. `layers` must be those of that `config`.
class MemoryOfRanks {
 public:
  /// Keeps a reference to the job's scenario, which must outlive the object.
  explicit MemoryOfRanks(const PlannedJob& job);

  /// Returns the memory of pipeline rank `stage`, as rank_memory() does.
  [[nodiscard]] MemoryBreakdown of_rank(const ParallelConfig& config, const LayersOfRanks& layers,
                                        int rank) const;
  /// Returns the memory of pipeline rank `stage` without activations, working set and buffers. With
  /// MemoryModel::kPtdp it includes the padding of aligned_ranges.h.
  [[nodiscard]] MemoryBreakdown state_of_rank(const ParallelConfig& config,
                                              const LayersOfRanks& layers, int rank) const;
  /// Returns the parameters that a GPU of pipeline rank `stage` holds, as rank_parameters() does.
  [[nodiscard]] RankParameters held(const ParallelConfig& config, const LayersOfRanks& layers,
                                    int rank) const;
  /// Returns the gradients that a GPU of pipeline rank `stage` with parameters `held` has at its
  /// peak. A chunk's may be reduced before the next one's are complete (reduces_by_chunk()). Whole
  /// are then those of two chunks, one of which is on its way, and of the ends of the model. With
  /// MemoryModel::kPtdp this never happens, since its buffers stay.
  [[nodiscard]] HeldGradients gradients(const ParallelConfig& config, const LayersOfRanks& layers,
                                        int rank, const RankParameters& held) const;
  /// Returns the part of of_rank()'s memory that is proportional to the microbatch size, for a
  /// constant number of microbatches in flight and but for kept_of_positions(). Not for stacks of
  /// MemoryModel::kPtdp.
  [[nodiscard]] Bytes proportional_to_size(const MemoryBreakdown& memory) const {
    return memory.activations + memory.working_set + messages_;
  }

 private:
  [[nodiscard]] Bytes working_set(const ParallelConfig& config, const LayersOfRanks& layers,
                                  int rank) const;
  [[nodiscard]] Bytes buffers(const ParallelConfig& config, const RankParameters& held) const;

  const Scenario& scenario_;
  RankActivations kept_;
  ActivationStorage storage_;
  std::array<RankParameters, kLayerKinds.size()> of_layer_{};
  std::array<Bytes, kLayerKinds.size()> activations_{};  // of a recomputed layer, whole
  Bytes messages_;  // buffers of messages between stages and within products
};

/// Returns the memory of all pipeline ranks, in order. With MemoryModel::kPtdp and several ranks it
/// walks the schedule's orders (activation_peak()), unless these have more than some millions of
/// actions.
[[nodiscard]] std::vector<MemoryBreakdown> memory_by_rank(const PlannedJob& job);
/// Returns the memory of all pipeline ranks, in order, by the orders of `schedule`. These must have
/// messages, as schedule_with_messages() has.
[[nodiscard]] std::vector<MemoryBreakdown> memory_by_rank(const PlannedJob& job,
                                                          const Schedule& schedule);

/// Generates the orders of the configuration's schedule, without messages between ranks.
[[nodiscard]] Schedule compute_schedule(const PlannedJob& job);
/// Generates the orders of the configuration's schedule, with messages between ranks.
[[nodiscard]] Schedule schedule_with_messages(const PlannedJob& job);
/// Returns how many actions schedule_with_messages() has at most, without generating it.
[[nodiscard]] double num_actions_with_messages(const PlannedJob& job);

/// Returns the index of the pipeline rank that holds most, the first of equal ones.
[[nodiscard]] int heaviest_of(const std::vector<MemoryBreakdown>& ranks);

/// Returns the heaviest pipeline rank of memory_by_rank(). With equal layers it is the first (most
/// microbatches in flight, embedding) or the last (logits), since those between hold less than the
/// first.
[[nodiscard]] int heaviest_rank(const PlannedJob& job);

/// Returns the total memory of a GPU of the heaviest pipeline rank.
[[nodiscard]] Bytes peak_memory(const PlannedJob& job);

}  // namespace ptdp
