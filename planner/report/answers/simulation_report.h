// The report of a simulated step.
#pragma once

#include "planner/plan/plan_simulation.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of a simulated step of the plan: its timeline, its critical path, what slower
/// ranks cost, and memory.
[[nodiscard]] Report simulation_report(const Plan& plan, const PlanSimulation& simulation,
                                       const SimulationOptions& options);

}  // namespace ptdp
