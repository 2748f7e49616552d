// The step of a plan as a timeline, beside what other schedules would make of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/plan/plan_simulation.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the plan with its `most` fastest other schedules, fastest first, found on some threads.
/// They keep what the optimizer does, fit into memory and have room on a page; the stack may not
/// run them. Of schedules that take equally long one counts.
[[nodiscard]] std::vector<Plan> best_other_schedules(const Plan& plan, std::size_t most,
                                                     std::size_t num_workers);

/// A plan and its simulated step.
struct SimulatedPlan {
  Plan plan;
  PlanSimulation simulation;
};

/// Simulates the steps of plans, on some threads.
[[nodiscard]] std::vector<SimulatedPlan> simulate_plans(std::vector<Plan> plans,
                                                        const SimulationOptions& options,
                                                        std::size_t num_workers);

/// How many of the best other schedules stand beside a plan's.
inline constexpr std::size_t kDrawnOthers = 2;

/// Returns how many actions of a configuration's step are drawn at most, those at its end aside.
[[nodiscard]] double most_drawn_actions(const StackSpec& stack, const ParallelConfig& config,
                                        std::int64_t num_microbatches);
/// Returns how many actions of the plan's step are drawn at most, those at its end aside.
[[nodiscard]] double most_drawn_actions(const Plan& plan);

/// Whether a page has room for the plan's step, action by action.
[[nodiscard]] bool has_room_for_timeline(const Plan& plan);

/// Returns a section that says why the plan's step is not drawn: it has no room.
[[nodiscard]] ReportSection undrawn_timeline(const Plan& plan);

/// Returns a plan's simulated step as a timeline, with the plan under other schedules behind it.
/// The plan must have room for it (has_room_for_timeline()).
[[nodiscard]] ReportSection plan_timeline(const Plan& plan, const PlanSimulation& simulation,
                                          std::span<const SimulatedPlan> others,
                                          std::size_t num_workers);

}  // namespace ptdp
