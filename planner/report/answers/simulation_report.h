// The report of a simulated step.
#pragma once

#include "planner/plan/plan_simulation.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of a simulated step of the plan: its timeline, its critical path, what slower
/// ranks cost, and memory.
[[nodiscard]] Report simulation_report(const Plan& plan, const PlanSimulation& simulation,
                                       const SimulationOptions& options);

/// Returns the report of a plan's step with every schedule (compare_schedules()): how long it
/// takes, how much of it is bubble, its memory, and why some cannot be had.
[[nodiscard]] Report schedules_report(const Plan& plan,
                                      const std::vector<ScheduleComparison>& schedules);

}  // namespace ptdp
