// Lower bounds of a simulated step, by no simulation.
#pragma once

#include <vector>

#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// A lower bound of StepSimulations::simulate(), for the arguments that it takes.
///
/// On a rank that holds at most P activations and runs F, I and W on them,
///
///   idle before its first I  >= t_I - P·F      t_I: all stages' F, and I of those behind it
///   idle after its last F    >= t_F - P·(I+W)  t_F: F of the stages behind it, back, and W
///
/// for before the first I it can run only forward passes, and after its last F it has nothing but
/// what it holds. They add up where it runs more than P forward passes. Before its first action
/// come the forward passes of the stages before it, after its last one their backward passes. And
/// since activations stay on a rank at least from F over the stages behind it and back to W, a time
/// L in each of its stages, P of them at a time let through no more than P microbatches in the sum
/// of L (Little's law). Messages take their time alone; what blocks the rank counts as its work.
/// Where gathers or reductions run beside compute (and no microbatch runs the other way, as in
/// DualPipe), no more than P forward passes run before the last gather has ended, and no more than
/// P backward passes after the first reduction may begin: the others lie between these two.
/// For 1F1B of equal stages the first rank's bound is the step.
[[nodiscard]] Seconds least_step_time(const PlannedJob& job);

/// A coarser bound of the passes alone: max over ranks of m·work + path, as a function of m.
///
/// The path are the passes of the stages before a rank's first one, which come before its first
/// action and after its last.
class LeastPasses {
 public:
  /// Only what microbatch_costs() and the split of the layers decide may differ from `config` in
  /// the configurations that it is asked for.
  explicit LeastPasses(const PlannedJob& job);

  [[nodiscard]] Seconds time(double num_microbatches) const;

 private:
  struct Rank {
    Seconds work;
    Seconds path;
  };
  std::vector<Rank> ranks_;  ///< Those that no other one exceeds in both.
};

}  // namespace ptdp
