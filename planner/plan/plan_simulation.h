// The simulation of a plan's step, action by action.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/simulation/analysis/critical_path.h"
#include "cost_model/simulation/analysis/memory_profile.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// What a simulation changes about the plan as it stands.
struct SimulationOptions {
  bool shares_links = true;  ///< Whether transfers that run beside compute share links.
  std::vector<Straggler> stragglers;
  Jitter jitter;
};

/// A simulated step of one pipeline. The members of its tensor-parallel groups and its replicas do
/// the same at the same time, so a rank here is a pipeline rank.
struct PlanSimulation {
  Schedule schedule;  ///< The complete schedule: with messages, reductions and the optimizer.
  StepTimes times;    ///< Durations of the actions, calibrated as the plan's prediction is.
  Timeline timeline;
  CriticalPath critical_path;
  /// By rank, percent by which the step grows per percent by which the rank slows down; see
  /// slowdown_elasticities().
  std::vector<double> elasticities;
  std::vector<MemoryProfile> memory;  ///< Memory over time, by rank.

  /// How long the rank that paces the pipeline waits for the others' passes. This is the bubble of
  /// the plan's breakdown, simulated: of the passes alone, without what messages and the end of the
  /// step add. A pipeline that never drains has none.
  Seconds bubble;
  /// The time of the step, until the last rank is done. When the stack's ranks go on by themselves
  /// (optimizer_post_validation), the longest time of a rank between its first action and its last.
  /// Without a flush (pipedream) steps follow one another at the pace of the busiest rank, while
  /// the timeline shows a cold start.
  Seconds step;
};

/// Returns an upper bound of the actions that simulate_plan() would walk through, buckets and the
/// end of the step aside. It serves to check that they fit into memory.
[[nodiscard]] double num_step_actions(const Plan& plan);

/// Returns the plan's schedule with everything that a step has: what is simulated and executed.
[[nodiscard]] Schedule complete_schedule(const Plan& plan);
/// Returns other orders for the plan as a complete schedule. Orders of compute alone are completed;
/// any others are returned as they are.
[[nodiscard]] Schedule complete_schedule(const Plan& plan, const Schedule& orders);

/// Returns the times that a simulation of the plan's step takes: the terms of its prediction times
/// its calibration factor.
[[nodiscard]] StepTimes plan_times(const Plan& plan, const SimulationOptions& options);
/// Returns the time of the plan's step (see PlanSimulation::step) from simulated times.
[[nodiscard]] Seconds step_of(const Plan& plan, const SimulatedTimes& times);

/// Simulates the plan's step: regenerates its schedule, completes it, and times every action with
/// plan_times(). Throws Error for a straggler that is no rank of the pipeline.
[[nodiscard]] PlanSimulation simulate_plan(const Plan& plan, const SimulationOptions& options);

/// Gives the plan another schedule. Returns why the plan cannot have it, and leaves the plan alone
/// then; returns nullopt when it is done.
///
///   - The plan keeps its stages per rank when the schedule takes as many, else has the number that
///     the schedule takes.
///   - If that number changes, layers are spread evenly. When they do not divide, they are spread
///   as
///     the search spreads them, if the stack can.
///   - zb-auto keeps the memory limit that the plan has. Without one it takes the memory of ZB-H2
///     when that fits, else that of ZB-H1.
///
/// The plan's prediction remains that of the schedule it had.
[[nodiscard]] std::optional<std::string> change_schedule(Plan& plan, const ScheduleTraits& traits);

/// What a plan would be with another schedule, or why it cannot have that schedule.
struct ScheduleComparison {
  std::string schedule;  ///< Name of the schedule.
  int vpp = 1;
  std::string conflict;   ///< Why the plan cannot have the schedule; the rest is empty then.
  Seconds step;           ///< Time of the step, see PlanSimulation::step.
  Seconds makespan;       ///< Time until the last action ends.
  Seconds bubble;         ///< See PlanSimulation::bubble.
  Seconds not_computing;  ///< See SimulatedTimes::not_computing().
  Bytes peak_memory;      ///< Memory of the heaviest rank as simulated.
  Bytes planned_memory;   ///< Memory as searches and plans count it, no less than peak_memory.
  bool fits = false;      ///< Whether planned_memory fits into what the plan may use.
  bool is_run_by_stack = false;
  bool changes_semantics = false;  ///< Whether weights are stale, which changes the optimizer.
};

/// Compares the plan under every schedule that there is, in the order of kSchedules. Throws Error
/// for a straggler that is no rank of the pipeline.
[[nodiscard]] std::vector<ScheduleComparison> compare_schedules(const Plan& plan,
                                                                const SimulationOptions& options);

}  // namespace ptdp
