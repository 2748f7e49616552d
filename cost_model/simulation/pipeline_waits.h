// What a pipeline waits for, by the simulation of its schedule.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "cost_model/analytic/stage.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Time of an iteration beyond the work of its busiest GPUs, m·slowest stage.
struct PipelineWaits {
  Seconds bubble;    ///< With messages that take no time.
  Seconds messages;  ///< What they add: they run beside compute and delay only who waits for them.

  friend bool operator==(const PipelineWaits&, const PipelineWaits&) = default;
};

/// Layers of a virtual stage of the model, which may be a fraction where they are spread evenly.
[[nodiscard]] double layers_of_virtual_stage(const TransformerConfig& model,
                                             const ParallelConfig& config, int virtual_stage);

/// Durations of every virtual stage's actions, in model order: the layers with what is recomputed
/// of them (part of both backward and input gradient), the embedding in the first and the logits in
/// the last, the stack's overhead in the forward pass. Without the accumulation of gradients.
[[nodiscard]] std::vector<StageDurations> virtual_stage_durations(const Scenario& scenario,
                                                                  const ParallelConfig& config,
                                                                  const MicrobatchCosts& costs);

/// Simulates the configuration's schedule, twice. Iterations follow one another as the stack has
/// it: when all ranks are done, or, with the optimizer's post-validation, each rank when it is done
/// itself, so that only idle time between a rank's first action and its last counts.
///
/// Where there are more than 17 p microbatches, the time of the others is that which the last 8 p
/// of these take on average: pipelines run into a rhythm within a few times p.
///
/// The schedule must have a generator, and the shape no conflict.
[[nodiscard]] PipelineWaits simulated_waits(const Scenario& scenario, const ParallelConfig& config,
                                            const MicrobatchCosts& costs);

/// A lower bound of that, by no simulation. On a rank that holds at most P activations and runs F,
/// I and W on them,
///
///   idle before its first I  ≥ t_I − P·F      t_I: all stages' F, and I of those behind it
///   idle after its last F    ≥ t_F − P·(I+W)  t_F: F of the stages behind it, back, and W
///
/// for before the first I it can run only forward passes, and after its last F it has nothing but
/// what it holds. They add up where it runs more than P forward passes. For ZB-H1 and equal stages
/// the first rank's are (p−1)I and (p−1)(F−W): its bubble is the bound.
[[nodiscard]] PipelineWaits least_waits(const Scenario& scenario, const ParallelConfig& config,
                                        const MicrobatchCosts& costs);

/// Simulated waits, each simulated once: configurations that differ in what no schedule sees, such
/// as their ZeRO stage, share them.
class WaitsCache {
 public:
  /// simulated_waits of the same arguments; `scenario` must be the same for all.
  const PipelineWaits& find(const Scenario& scenario, const ParallelConfig& config,
                            const MicrobatchCosts& costs);

 private:
  using Key = std::tuple<ScheduleKind, int, std::int64_t, double, std::vector<double>>;
  std::map<Key, PipelineWaits> waits_;
};

}  // namespace ptdp
