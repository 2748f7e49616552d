// What a rank of ptdp's own runtime has in memory, to the moment: runtime/model/MEMORY.md, "What
// is in memory when", as formulas.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/runtime_buffers.h"
#include "cost_model/schedule/schedule.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/units.h"

namespace ptdp {

/// Of a virtual stage: what a microbatch keeps there, and the most that there is of it during each
/// pass, its kept part included. Messages are `result` each: the stage's input counts as kept, its
/// result and the gradients that it takes and makes count in the passes.
struct StageMemory {
  Bytes kept;
  Bytes deferred;
  Bytes forward;
  Bytes backward;  ///< Both gradients, layer by layer.
  Bytes input_gradient;
  Bytes weight_gradient;
  Bytes result;
};
[[nodiscard]] StageMemory virtual_stage_memory(const PlannedJob& job, int virtual_stage);

/// Of what comes and goes on a rank, its worst moment.
struct ActivationPeak {
  Bytes kept;     ///< Of all microbatches: activations, and what weight gradients wait for.
  Bytes working;  ///< What the pass being run has besides.
  Bytes waiting;  ///< Messages that were received and not yet used, or made and not yet sent.

  [[nodiscard]] Bytes total() const { return kept + working + waiting; }
};

/// Peaks of one rank after another, with what ranks share worked out once.
class RankMemories {
 public:
  /// Keeps a reference to the scenario.
  explicit RankMemories(const PlannedJob& job);

  /// virtual_stage_memory().
  [[nodiscard]] const StageMemory& of_virtual_stage(int virtual_stage);
  /// activation_peak() and activation_bound().
  [[nodiscard]] ActivationPeak peak(const Schedule& schedule, int rank);
  [[nodiscard]] ActivationPeak bound(int rank);
  /// By orders without messages, none of which waits: no more than peak(), which is no more than
  /// waiting() above it.
  [[nodiscard]] ActivationPeak peak_of_compute(const Schedule& compute, int rank);
  [[nodiscard]] Bytes waiting();
  /// No more than the total of peak(): one microbatch in the stage that takes most.
  [[nodiscard]] Bytes least(int rank);

 private:
  struct Needs;

  /// `has_messages`: whether the orders have them as actions; else none ever waits.
  [[nodiscard]] ActivationPeak walked(const Schedule& schedule, int rank, bool has_messages);
  const Scenario& scenario_;
  ParallelConfig config_;
  std::shared_ptr<const Needs> needs_;              // of passes of the whole model
  std::vector<std::optional<StageMemory>> stages_;  // once they are needed
};

/// By walking through the rank's list, where messages are actions of their own: a buffer is there
/// from its receive to the pass that takes it, and from the pass that makes it to its send.
[[nodiscard]] ActivationPeak activation_peak(const PlannedJob& job, const Schedule& schedule,
                                             int rank);

/// No less than that, without a schedule: as many activations as the schedule's generator bounds
/// are held, of the virtual stages that take most; one of them runs the pass that takes most; some
/// messages wait. As much on one rank; up to a quarter more where backward passes are whole, and up
/// to twelve times as much where weight gradients are put off that keep more than activations do.
[[nodiscard]] ActivationPeak activation_bound(const PlannedJob& job, int rank);

}  // namespace ptdp
