// The time of an iteration by the simulation of its step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "cost_model/iteration/step_builder.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Whether the configuration's steps have an end to simulate. This holds for schedules whose
/// weights are never stale: each step waits for all microbatches.
[[nodiscard]] bool is_simulated(const ParallelConfig& config);

/// Returns what the passes of schedule/passes/communication.h add to the configuration's schedule.
[[nodiscard]] StepActions step_actions(const PlannedJob& job);

/// All that a step's simulation is given.
struct GivenStep {
  StepTimes times;
  StepActions actions;  ///< What the passes of communication.h add to the schedule.
  ScheduleShape shape;  ///< Sizes and durations for which the schedule is generated.
};
/// Returns the step of a transformer.
[[nodiscard]] GivenStep given_step(const PlannedJob& job);
/// Returns the step of any layers, as step_times() takes them. The schedule must not depend on
/// durations.
[[nodiscard]] GivenStep given_step(const PlannedJob& job, const StageLoads& loads);

/// Whether transfers run beside compute or one another, so that they may share links.
///
/// A transfer that takes turns with compute has its links to itself: neighbors that block exchange
/// both ways at once, and go on together.
[[nodiscard]] bool is_contended(const StepTimes& times, const StepActions& actions);

/// Returns how long a simulated step takes: until the last rank is done. Where the stack's ranks go
/// on by themselves (optimizer_post_validation), it is the longest time of a rank from its first
/// action on.
[[nodiscard]] Seconds step_of(const StackSpec& stack, const SimulatedTimes& times);

/// Returns the times of a step whose passes alone take any: messages, reductions, gathers, the norm
/// and the optimizer take none, and slow nothing down.
[[nodiscard]] StepTimes passes_alone(StepTimes times);

/// Times of a step with more and more of its parts.
struct StepParts {
  Seconds passes;         ///< Time of forward and backward passes alone.
  Seconds with_messages;  ///< Time of passes and of messages between stages.
  Seconds whole;  ///< Time of the whole step: reductions, gathers, the norm and the optimizer too.
};

/// A step's time, or a lower bound of it.
struct StepBound {
  Seconds time;
  bool is_exact = false;  ///< Whether it is the step's time, and no bound.
};

/// Returns the number of actions that a simulation for a search works through at most.
[[nodiscard]] double simulated_actions(const ParallelConfig& config, std::int64_t num_microbatches);

/// Simulates steps, and remembers their schedules. Not safe for concurrent use by several threads.
///
/// A step is that of `simulate_step` with the times of `step_times`, transfers sharing links. Where
/// all communication takes turns with compute, compute alone is simulated, and of 1F1B that the
/// last rank paces nothing: its times are a formula (turn_taking.h). Of many microbatches some 3p
/// are simulated. What the last p of these add is added for each p of the others: pipelines run
/// into a rhythm within a few times p. Steps of up to 30,000 actions are simulated in full, and so
/// are those for which both simulations would take as long.
class StepSimulations {
 public:
  /// Returns the time of the whole step, uncalibrated. The configuration must be one that can run.
  [[nodiscard]] Seconds simulate(const PlannedJob& job) { return simulate(job, given_step(job)); }
  /// Returns the time of a given step of the job's degrees, stack and batch, uncalibrated.
  [[nodiscard]] Seconds simulate(const PlannedJob& job, GivenStep given);
  /// Returns the step's time where transfers share nothing; else a lower bound, in a tenth of the
  /// time: no step is faster than one in which transfers have their links to themselves and slow
  /// nothing down.
  [[nodiscard]] StepBound bound(const PlannedJob& job);
  /// Returns the times of the step's parts, by two simulations more than simulate().
  [[nodiscard]] StepParts parts(const PlannedJob& job) { return parts(job, given_step(job)); }
  /// Returns the times of a given step's parts, as simulate() takes it.
  [[nodiscard]] StepParts parts(const PlannedJob& job, GivenStep given);

 private:
  class Step;
  using Key = std::tuple<std::string_view, int, int, int, std::vector<StageTicks>, int,
                         std::optional<int>, bool, std::vector<int>, int>;

  /// Returns a schedule, complete with `actions`, or of compute alone where `actions` is null.
  /// Keeps as many schedules as fit 50 MB.
  std::shared_ptr<const Schedule> find_schedule(const ScheduleTraits& traits,
                                                const ScheduleShape& shape,
                                                const StepActions* actions);

  std::map<Key, std::shared_ptr<const Schedule>> schedules_;
  std::int64_t num_actions_ = 0;
};

}  // namespace ptdp
