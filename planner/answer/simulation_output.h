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
  bool is_as_planned = true;  ///< Whether the plan's own schedule was simulated.
  bool has_orders = false;    ///< Whether JSON lists what every rank does.
};

/// Returns the simulated step as text:
///
///   - the step beside the planned one, and which of the two to believe if they differ by more
///     than 2 %;
///   - bubble, idle time and work of ranks, and memory of the heaviest rank;
///   - the critical path by term, and what a slower rank costs;
///   - the timeline of `window`.
[[nodiscard]] std::string to_text(const Plan& plan, const SimulationContext& context,
                                  const PlanSimulation& simulation, const DrawingWindow& window);
/// Returns the simulated step as `ptdp.simulation/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const Plan& plan, const SimulationContext& context,
                                  const PlanSimulation& simulation);

/// Returns the schedules, fastest first, then those that the plan cannot have, in their order.
[[nodiscard]] std::vector<ScheduleComparison> fastest_first(
    std::span<const ScheduleComparison> schedules);
/// Returns what to know of a schedule that the plan can have: whether it fits, and who runs it.
[[nodiscard]] std::string remarks_on(const Plan& plan, const ScheduleComparison& row);
/// Returns a table of schedules, fastest first; schedules that the plan cannot have come last.
[[nodiscard]] std::string to_text(const Plan& plan, std::span<const ScheduleComparison> schedules);
/// Returns the comparison of schedules as `ptdp.schedules/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const Plan& plan, std::span<const ScheduleComparison> schedules);

/// Returns a simulated step in a format, JSON or text; `window` is for the text.
[[nodiscard]] std::string in_format(AnswerFormat format, const Plan& plan,
                                    const SimulationContext& context,
                                    const PlanSimulation& simulation, const DrawingWindow& window);
/// Returns the comparison of schedules in a format, JSON or text.
[[nodiscard]] std::string in_format(AnswerFormat format, const Plan& plan,
                                    std::span<const ScheduleComparison> schedules);

}  // namespace ptdp
