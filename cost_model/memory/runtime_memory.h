// What a rank of this project's own runtime has in memory, to the moment: runtime/model/MEMORY.md,
// "What is in memory when", as formulas.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/runtime_buffers.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/units.h"

namespace ptdp {

/// Memory of one microbatch in a virtual stage. The sizes of passes are the most that there is
/// during each, its kept part included. Messages are `result` each. The stage's input counts as
/// kept; its result and the gradients that it takes and makes count in the passes.
struct StageMemory {
  Bytes kept;      ///< Memory kept from the forward pass to the backward pass or input gradient.
  Bytes deferred;  ///< Memory kept from the input gradient to a weight gradient that is put off.
  Bytes forward;   ///< Most memory during the forward pass.
  Bytes backward;  ///< Most memory during a whole backward pass: both gradients, layer by layer.
  Bytes input_gradient;   ///< Most memory during the input gradient.
  Bytes weight_gradient;  ///< Most memory during a weight gradient that is put off.
  Bytes result;           ///< Size of a message to a neighboring stage.
};
/// Computes the memory of one microbatch in virtual stage `virtual_stage` (0 … pp·vpp−1).
[[nodiscard]] StageMemory virtual_stage_memory(const PlannedJob& job, int virtual_stage);

/// Memory that comes and goes on a rank, at its worst moment.
struct ActivationPeak {
  /// Activations of all microbatches, what weight gradients wait for, and angles of positions.
  Bytes kept;
  Bytes working;  ///< Memory that the pass being run takes besides.
  Bytes waiting;  ///< Messages that were received and not yet used, or made and not yet sent.

  [[nodiscard]] Bytes total() const { return kept + working + waiting; }
};

/// Computes the peaks of many ranks of one configuration, caching what they share.
class RankMemories {
 public:
  /// Keeps a reference to the job's scenario, which must outlive the object, and a copy of its
  /// config.
  explicit RankMemories(const PlannedJob& job);

  /// Returns virtual_stage_memory() of `virtual_stage`, computed once.
  [[nodiscard]] const StageMemory& of_virtual_stage(int virtual_stage);
  /// Returns activation_peak() of `rank` by the orders of `schedule`, which have messages.
  [[nodiscard]] ActivationPeak peak(const Schedule& schedule, int rank);
  [[nodiscard]] ActivationPeak bound(int rank);  ///< Returns activation_bound() of `rank`.
  /// Returns the peak of `rank` by orders without messages, none of which then waits. It is no more
  /// than peak(), which is no more than waiting() above it.
  [[nodiscard]] ActivationPeak peak_of_compute(const Schedule& compute, int rank);
  /// Returns the most memory of messages that wait on a rank; 0 with one pipeline rank.
  [[nodiscard]] Bytes waiting();
  /// Returns a lower bound of the total of peak(): one microbatch in the virtual stage of `rank`
  /// that takes most.
  [[nodiscard]] Bytes least(int rank);

 private:
  struct Needs;

  /// Returns the memory of rotary positions' angles, one table for each virtual stage of `rank`.
  [[nodiscard]] Bytes angles(int rank) const;

  /// Walks through the orders of `rank` and returns its peak. `has_messages` says whether they have
  /// messages as actions; if not, none ever waits.
  [[nodiscard]] ActivationPeak walked(const Schedule& schedule, int rank, bool has_messages);
  const Scenario& scenario_;
  ParallelConfig config_;
  std::shared_ptr<const Needs> needs_;              // what passes of the whole model need
  std::vector<std::optional<StageMemory>> stages_;  // by virtual stage, once needed
};

/// Returns the worst moment of `rank` by walking through its list in `schedule`, where messages are
/// actions of their own. A buffer is there from its receive to the pass that takes it, and from the
/// pass that makes it to its send.
[[nodiscard]] ActivationPeak activation_peak(const PlannedJob& job, const Schedule& schedule,
                                             int rank);

/// Returns an upper bound of activation_peak() for `rank`, without a schedule. It holds as many
/// activations as the schedule's generator bounds, of the virtual stages that take most. One of
/// these runs the pass that takes most, and some messages wait.
///
/// It is exact on one rank, and up to a quarter more where backward passes are whole. It is up to
/// twelve times as much where weight gradients are put off that keep more than activations do.
[[nodiscard]] ActivationPeak activation_bound(const PlannedJob& job, int rank);

}  // namespace ptdp
