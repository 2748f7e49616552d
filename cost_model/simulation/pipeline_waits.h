// What a pipeline waits for, by the simulation of its schedule.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "cost_model/analytic/stage.h"
#include "cost_model/schedule/generators.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Time of an iteration beyond the work of its busiest GPUs, m·slowest stage.
struct PipelineWaits {
  Seconds bubble;    ///< With messages that take no time.
  Seconds messages;  ///< What they add: they run beside compute and delay only who waits for them.

  friend bool operator==(const PipelineWaits&, const PipelineWaits&) = default;
};

/// Durations of every virtual stage's actions, in model order: the layers with what is recomputed
/// of them (part of both backward and input gradient), the embedding in the first and the logits in
/// the last, the stack's overhead in the forward pass. Without the accumulation of gradients.
[[nodiscard]] std::vector<StageDurations> virtual_stage_durations(const Scenario& scenario,
                                                                  const ParallelConfig& config,
                                                                  const MicrobatchCosts& costs);

/// Time of an iteration beyond m·slowest stage, by simulation of the configuration's schedule.
/// Iterations follow one another as the stack has it: when all ranks are done, or, with the
/// optimizer's post-validation, each rank when it is done itself, so that only idle time between a
/// rank's first action and its last counts.
///
/// Where there are many microbatches, some 4 p of them are simulated, and what the last half of
/// these adds to the wait is added for the others: pipelines run into a rhythm within a few times
/// p. More than 4 p where that is cheap, 3e4 actions: small pipelines are simulated in full.
/// Against the simulation of all of up to 40 p microbatches it is 3e-3 off for V-Min and 1e-5 for
/// the others, as long as messages take no longer than the passes of a stage
/// (tests/cost_model/simulation/pipeline_waits_test.cpp).
///
/// The schedule must have a generator, and the shape no conflict.
[[nodiscard]] Seconds simulated_wait(const Scenario& scenario, const ParallelConfig& config,
                                     const MicrobatchCosts& costs);

/// The same in two parts, by a second simulation without messages.
[[nodiscard]] PipelineWaits simulated_waits(const Scenario& scenario, const ParallelConfig& config,
                                            const MicrobatchCosts& costs);

/// Actions that simulated_waits works through at a time, at most.
[[nodiscard]] double simulated_actions(const ParallelConfig& config, std::int64_t num_microbatches);

/// A lower bound of their sum, by no simulation. On a rank that holds at most P activations and
/// runs F, I and W on them,
///
///   idle before its first I  ≥ t_I − P·F      t_I: all stages' F, and I of those behind it
///   idle after its last F    ≥ t_F − P·(I+W)  t_F: F of the stages behind it, back, and W
///
/// for before the first I it can run only forward passes, and after its last F it has nothing but
/// what it holds. They add up where it runs more than P forward passes. For ZB-H1 and equal stages
/// the first rank's are (p−1)I and (p−1)(F−W): its bubble is the bound. And since activations stay
/// on a rank at least from F over the stages behind it and back to W, a time L in each of its
/// stages, P of them at a time let through no more than P microbatches in ΣL (Little's law): that
/// bounds V-Min where F, I and W differ.
[[nodiscard]] PipelineWaits least_waits(const Scenario& scenario, const ParallelConfig& config,
                                        const MicrobatchCosts& costs);

/// Schedules that were made, so that none is made twice; as many as fit 50 MB.
class ScheduleCache {
 public:
  /// The schedule of a shape without conflict.
  [[nodiscard]] std::shared_ptr<const Schedule> find(const ScheduleGenerator& generator,
                                                     const ScheduleShape& shape);

 private:
  using Key = std::tuple<std::string_view, int, int, int, std::vector<StageTicks>, int,
                         std::optional<int>, bool>;
  std::map<Key, std::shared_ptr<const Schedule>> schedules_;
  std::int64_t num_actions_ = 0;
};

/// Simulated waits, each simulated once: configurations that differ in what no schedule sees, such
/// as their ZeRO stage, share them.
class WaitsCache {
 public:
  /// simulated_wait of the same arguments; `scenario` must be the same for all.
  [[nodiscard]] Seconds find(const Scenario& scenario, const ParallelConfig& config,
                             const MicrobatchCosts& costs);

 private:
  using Key =
      std::tuple<ScheduleKind, int, std::int64_t, std::optional<int>, double, std::vector<double>>;
  std::map<Key, Seconds> waits_;
  ScheduleCache schedules_;
};

}  // namespace ptdp
