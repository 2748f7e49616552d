#include "planner/report/sections/plan_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "cost_model/iteration/iteration.h"
#include "cost_model/iteration/least_step.h"
#include "cost_model/iteration/simulated_step.h"
#include "cost_model/iteration/step_builder.h"
#include "cost_model/schedule/generators/generators.h"
#include "cost_model/text/as_typed.h"
#include "planner/constraints/constraint.h"
#include "planner/formatting.h"
#include "planner/report/sections/step_timeline.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

constexpr std::size_t kOthers = 2;
constexpr const char* kTimelineId = "timeline";
constexpr const char* kTimelineTitle = "What does each stage do when?";

/// Returns the plan with another schedule; nullopt if it cannot have it, changes what it learns, or
/// does not fit.
std::optional<Plan> with_schedule(const Plan& plan, const ScheduleTraits& traits) {
  Plan other = plan;
  if (traits.name == plan.schedule.generator || !traits.is_synchronous ||
      change_schedule(other, traits) ||
      other.memory.peak() > usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom) ||
      !has_room_for_timeline(other)) {
    return std::nullopt;
  }
  return other;
}

/// Returns the schedule's name, and whether the stack lacks it.
std::string name_of_schedule(const Plan& plan) {
  return plan.schedule.generator + stack_remark(plan.scenario.stack, plan.config);
}

DrawnStep drawn(const Plan& plan, const PlanSimulation& simulation) {
  return {.name = name_of_schedule(plan),
          .schedule = simulation.schedule,
          .timeline = simulation.timeline,
          .messages = simulation.times.messages,
          .data = simulation.times.data,
          .critical_path = &simulation.critical_path,
          .bubble = simulation.bubble};
}

}  // namespace

double most_drawn_actions(const StackSpec& stack, const ParallelConfig& config,
                          std::int64_t num_microbatches) {
  const double passes = traits_of(config.schedule).splits_backward ? 3.0 : 2.0;
  const double messages = message_mode(stack, config) == MessageMode::kBlocking ? 2.0 : 0.0;
  return (passes + messages) * config.pp * config.vpp * static_cast<double>(num_microbatches);
}

double most_drawn_actions(const Plan& plan) {
  return most_drawn_actions(plan.scenario.stack, plan.config, plan.schedule.num_microbatches);
}

bool has_room_for_timeline(const Plan& plan) {
  return most_drawn_actions(plan) <= static_cast<double>(kMostDrawnActions);
}

std::vector<Plan> best_other_schedules(const Plan& plan, std::size_t most) {
  using TimedPlan = std::pair<Seconds, Plan>;
  std::vector<std::optional<TimedPlan>> tried(kSchedules.size());
  run_tasks(tried.size(), workers_of_all_cores(), [&](std::size_t, std::size_t i) {
    if (std::optional<Plan> other = with_schedule(plan, kSchedules[i])) {
      const Seconds least = least_step_time({other->scenario, other->config});
      tried[i].emplace(least, *std::move(other));
    }
  });
  std::vector<TimedPlan> bounded;
  for (std::optional<TimedPlan>& other : tried) {
    if (other) {
      bounded.push_back(*std::move(other));
    }
  }
  std::ranges::stable_sort(bounded, {}, &TimedPlan::first);
  // The lowest bound first, until none can be among the fastest.
  std::multimap<Seconds, Plan> best;
  for (auto& [least, other] : bounded) {
    if (best.size() == most && least >= best.rbegin()->first) {
      break;
    }
    StepSimulations simulations;
    const Seconds time = iteration_time({other.scenario, other.config}, simulations);
    best.emplace(time, std::move(other));
    if (best.size() > most) {
      best.erase(std::prev(best.end()));
    }
  }
  std::vector<Plan> others;
  for (auto& [time, other] : best) {
    others.push_back(std::move(other));
  }
  return others;
}

ReportSection undrawn_timeline(const Plan& plan) {
  return {.id = kTimelineId,
          .title = kTimelineTitle,
          .view = TextView{{fmt::format(
              "The step has up to {} actions, more than a page draws ({}). {} --from and --to draw "
              "a part of it, and --trace writes all of it.",
              grouped(most_drawn_actions(plan)), grouped(static_cast<double>(kMostDrawnActions)),
              as_typed("ptdp-sim"))}}};
}

ReportSection plan_timeline(const Plan& plan, const PlanSimulation& simulation,
                            const SimulationOptions& options) {
  const std::vector<Plan> others = best_other_schedules(plan, kOthers);
  std::vector<PlanSimulation> simulations(others.size());
  run_tasks(others.size(), workers_of_all_cores(), [&](std::size_t, std::size_t i) {
    simulations[i] = simulate_plan(others[i], options);
  });
  std::vector<DrawnStep> steps = {drawn(plan, simulation)};
  std::string beside;
  for (std::size_t i = 0; i < others.size(); ++i) {
    steps.push_back(drawn(others[i], simulations[i]));
    beside +=
        fmt::format("{} {} ({})", i == 0 ? "; the best others that fit:" : ",", steps.back().name,
                    signed_percent(simulations[i].step / simulation.step - 1.0));
  }
  return {.id = kTimelineId,
          .title = kTimelineTitle,
          .note = fmt::format(
              "The simulated step of one pipeline, {}{}. Its tensor-parallel groups and replicas "
              "do the same at the same time. Rank 0 holds stage 1. A row has passes and what takes "
              "turns with them; collectives that run beside compute show where the rank would else "
              "wait.{}",
              duration(simulation.step), beside,
              is_simulated(plan.config) ? ""
                                        : " Steps follow one another without a pause; this one "
                                          "starts with an empty pipeline."),
          .view = step_timeline(steps)};
}

}  // namespace ptdp
