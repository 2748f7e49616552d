// A simulated step as text for people and as JSON.
#pragma once

#include <span>
#include <string>

#include "cost_model/simulation/views/drawing.h"
#include "planner/answer_format.h"
#include "planner/plan/plan_simulation.h"

namespace ptdp {

/// How a simulation came about.
struct SimulationContext {
  SimulationOptions options;
  bool is_as_planned = true;  ///< The plan's own schedule.
  bool has_orders = false;    ///< JSON: whether to list what every rank does.
};

/// The step beside the planned one, where they differ by more than 2 % with which of the two to
/// believe; bubble, idle time and memory by rank, the critical path by term, what a slower rank
/// costs, and the timeline of `window`.
[[nodiscard]] std::string simulation_text(const Plan& plan, const SimulationContext& context,
                                          const PlanSimulation& simulation,
                                          const DrawingWindow& window);
/// Writes the figures as `ptdp.simulation/1`, described in FORMATS.md.
[[nodiscard]] std::string simulation_json(const Plan& plan, const SimulationContext& context,
                                          const PlanSimulation& simulation);

/// A table of schedules, fastest first, what the plan cannot have behind; and as
/// `ptdp.schedules/1`.
[[nodiscard]] std::string comparison_text(const Plan& plan,
                                          std::span<const ScheduleComparison> schedules);
[[nodiscard]] std::string comparison_json(const Plan& plan,
                                          std::span<const ScheduleComparison> schedules);

/// The simulated step, or the schedules, in a format.
[[nodiscard]] std::string in_format(AnswerFormat format, const Plan& plan,
                                    const SimulationContext& context,
                                    const PlanSimulation& simulation, const DrawingWindow& window);
[[nodiscard]] std::string in_format(AnswerFormat format, const Plan& plan,
                                    std::span<const ScheduleComparison> schedules);

}  // namespace ptdp
