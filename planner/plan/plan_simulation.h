// A plan's step, simulated action by action.
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

/// What differs from the plan as it stands.
struct SimulationOptions {
  bool shares_links = true;  ///< Transfers that run beside compute share links.
  std::vector<Straggler> stragglers;
  Jitter jitter;
};

/// A simulated step of one pipeline: the members of its tensor-parallel groups and its replicas do
/// the same at the same time.
struct PlanSimulation {
  Schedule schedule;  ///< Complete: messages, reductions, the optimizer.
  StepTimes times;    ///< Calibrated as the plan's prediction is.
  Timeline timeline;
  CriticalPath critical_path;
  std::vector<double> elasticities;   ///< By rank; simulation/sensitivity.h.
  std::vector<MemoryProfile> memory;  ///< By rank.

  /// Of a step: until the last rank is done or, where the stack's ranks go on by themselves
  /// (optimizer_post_validation), the longest time of a rank between its first action and its last.
  /// Without a flush (pipedream) steps follow one another at the pace of the busiest rank, while
  /// the timeline is that of a cold start.
  Seconds step;
};

/// Actions of the complete schedule that `simulate_plan` would walk through; for a check that they
/// fit into memory.
[[nodiscard]] double num_step_actions(const Plan& plan);

/// The plan's schedule with everything that a step has: what is simulated and what is executed.
[[nodiscard]] Schedule complete_schedule(const Plan& plan);
/// The same of other orders for the plan: one of compute alone is completed, any other stands.
[[nodiscard]] Schedule complete_schedule(const Plan& plan, const Schedule& orders);

/// What a simulation of the plan's step is given: the terms of its prediction times its
/// calibration factor.
[[nodiscard]] StepTimes plan_times(const Plan& plan, const SimulationOptions& options);
/// The step, as PlanSimulation::step is of a timeline's times.
[[nodiscard]] Seconds step_of(const Plan& plan, const SimulatedTimes& times);

/// Regenerates the plan's schedule, completes it, times every action by the terms of the plan's
/// prediction times its calibration factor, and simulates it. Throws Error for a straggler that is
/// no rank of the pipeline.
[[nodiscard]] PlanSimulation simulate_plan(const Plan& plan, const SimulationOptions& options);

/// Gives the plan another schedule, with its stages per rank where the schedule takes as many, else
/// with the number that it takes, layers then spread evenly or, where that cannot be and the stack
/// can, as the search spreads them; zb-auto keeps the limit that the plan
/// has, else takes the memory of ZB-H2 where it fits and that of ZB-H1 where not. Its prediction
/// remains that of the schedule it had. Returns why the plan cannot have it, if so, and leaves it
/// alone.
[[nodiscard]] std::optional<std::string> change_schedule(Plan& plan, const ScheduleTraits& traits);

/// What a plan would be with another schedule: what of it differs, or why it cannot be.
struct ScheduleComparison {
  std::string schedule;
  int vpp = 1;
  std::string conflict;  ///< Why the plan cannot have it; the rest is empty then.
  Seconds step;          ///< As in PlanSimulation.
  Seconds makespan;      ///< Until the last action.
  Seconds bubble;
  double bubble_ratio = 0.0;
  Bytes peak_memory;     ///< As it is simulated.
  Bytes planned_memory;  ///< As searches and plans count it, which is no less.
  bool fits = false;     ///< By the latter, into the memory that the plan may use.
  bool is_run_by_stack = false;
  bool changes_semantics = false;  ///< Stale weights: not the optimizer's step of the others.
};

/// The plan with every schedule that there is, in the order of kSchedules.
[[nodiscard]] std::vector<ScheduleComparison> compare_schedules(const Plan& plan,
                                                                const SimulationOptions& options);

}  // namespace ptdp
