// The time of an iteration by the simulation of its step.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// Whether a step has an end to simulate: weights that are never stale wait for all microbatches.
[[nodiscard]] bool is_simulated(const ParallelConfig& config);

/// What the passes of schedule/communication.h add to the configuration's schedule.
[[nodiscard]] StepActions step_actions(const PlannedJob& job);

/// Whether transfers run beside compute or one another, so that they may share links.
///
/// What takes turns with compute has its links to itself: neighbours that block exchange both ways
/// at once, and go on together.
[[nodiscard]] bool is_contended(const StepTimes& times, const StepActions& actions);

/// How long a simulated step takes: until the last rank is done or, where the stack's ranks go on
/// by themselves (optimizer_post_validation), the longest time of a rank from its first action on.
[[nodiscard]] Seconds step_of(const StackSpec& stack, const SimulatedTimes& times);

/// How long a step takes with more and more of what it consists of.
struct StepParts {
  Seconds passes;         ///< Forward and backward passes alone.
  Seconds with_messages;  ///< Messages between stages too.
  Seconds whole;          ///< Reductions, gathers, the norm and the optimizer too.
};

/// Actions that a simulation for a search works through at most.
[[nodiscard]] double simulated_actions(const ParallelConfig& config, std::int64_t num_microbatches);

/// Simulates steps, and remembers their schedules. Not for several threads at once.
///
/// The step is that of `simulate_step` with the times of `step_times`, transfers sharing links.
/// Where everything takes turns with compute, compute alone is simulated (turn_taking.h). Of many
/// microbatches some 3p are simulated, and what the last p of these add is added for each p of the
/// others: pipelines run into a rhythm within a few times p. Steps of up to 30,000 actions are
/// simulated in full, and those for which both simulations would take as long.
class StepSimulations {
 public:
  /// The time of the whole step, uncalibrated; the configuration must be one that can run.
  [[nodiscard]] Seconds simulate(const PlannedJob& job);
  /// The times of the step's parts, by two more simulations.
  [[nodiscard]] StepParts parts(const PlannedJob& job);

 private:
  class Step;
  using Key = std::tuple<std::string_view, int, int, int, std::vector<StageTicks>, int,
                         std::optional<int>, bool, std::vector<int>, int>;

  /// A schedule, complete with `actions` or of compute alone; as many are kept as fit 50 MB.
  std::shared_ptr<const Schedule> find_schedule(const ScheduleTraits& traits,
                                                const ScheduleShape& shape,
                                                const StepActions* actions);

  std::map<Key, std::shared_ptr<const Schedule>> schedules_;
  std::int64_t num_actions_ = 0;
};

}  // namespace ptdp
