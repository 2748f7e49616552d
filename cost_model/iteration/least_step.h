// Lower bounds of a simulated step, without simulation.
#pragma once

#include <vector>

#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"

namespace ptdp {

/// Returns a lower bound of StepSimulations::simulate() for the same job.
///
/// On a rank that holds at most P activations and runs F, I and W on them,
///
///   idle before its first I  >= t_I - P·F      t_I: all stages' F, and I of those behind it
///   idle after its last F    >= t_F - P·(I+W)  t_F: F of the stages behind it, back, and W
///
/// Before its first I it can run only forward passes, and after its last F it has nothing but what
/// it holds. The two add up where it runs more than P forward passes. Before its first action come
/// the forward passes of the stages before it, after its last one their backward passes.
///
/// Activations stay on a rank at least from F over the stages behind it and back to W. Let L be
/// that time in each of its stages. With P activations at a time, no more than P microbatches pass
/// in the sum of L (Little's law). Messages take their time alone; what blocks the rank counts as
/// its work.
///
/// Where gathers or reductions run beside compute, no more than P forward passes run before the
/// last gather has ended. No more than P backward passes run after the first reduction may begin.
/// The other passes lie between these two. This part is left out where microbatches also run the
/// other way, as in DualPipe.
///
/// For 1F1B of equal stages the first rank's bound is the step.
[[nodiscard]] Seconds least_step_time(const PlannedJob& job);

/// A coarser lower bound, of the passes alone: max over ranks of m·work + path, as a function of m.
///
/// The path is the passes of the stages before a rank's first one. Forward passes come before the
/// rank's first action, and whole backward passes after its last. Split backward passes do not
/// count.
class LeastPasses {
 public:
  /// Prepares the bound for `job`'s configuration. It also holds for any other configuration with
  /// the same microbatch_costs() and the same split of the layers.
  explicit LeastPasses(const PlannedJob& job);

  /// Returns the lower bound for `num_microbatches` microbatches per replica.
  [[nodiscard]] Seconds time(double num_microbatches) const;

 private:
  struct Rank {
    Seconds work;  ///< Time of the rank's passes per microbatch.
    /// Time of the passes of the stages before the rank's first one; 0 where ranks do not wait for
    /// all.
    Seconds path;
  };
  std::vector<Rank> ranks_;  ///< Ranks that no other one exceeds in both `work` and `path`.
};

}  // namespace ptdp
