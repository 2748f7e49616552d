#include "planner/report/sections/plan_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <numeric>
#include <optional>
#include <set>
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

// A bound is below a time by as much, if they are equal.
constexpr double kRoundingOfBound = 1e-8;
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

/// A plan with another schedule, and what is known of its step.
struct Contender {
  explicit Contender(Plan other) : plan(std::move(other)) {
    const PlannedJob job(plan.scenario, plan.config);
    order = least_step_time(job);
    least = std::max(times.bound(job).time, order);
  }
  /// Makes `least` the time of the step.
  void simulate() { least = times.find({plan.scenario, plan.config}); }

  Plan plan;
  IterationTimes times;  ///< Times of this plan alone, with its schedule.
  Seconds least;         ///< Time of the step, or a lower bound of it.
  Seconds order;         ///< What decides between steps that take equally long.
};

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

std::vector<Plan> best_other_schedules(const Plan& plan, std::size_t most,
                                       std::size_t num_workers) {
  std::vector<std::optional<Contender>> tried(kSchedules.size());
  run_tasks(tried.size(), num_workers, [&](std::size_t, std::size_t i) {
    if (std::optional<Plan> other = with_schedule(plan, kSchedules[i])) {
      tried[i].emplace(*std::move(other));
    }
  });
  std::vector<Contender> contenders;
  for (std::optional<Contender>& other : tried) {
    if (other) {
      contenders.push_back(*std::move(other));
    }
  }
  std::ranges::stable_sort(contenders, {}, &Contender::order);
  std::vector<std::size_t> left(contenders.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  std::ranges::stable_sort(left, {}, [&](std::size_t i) { return contenders[i].least; });
  // The lowest bound first, as many at once as there are threads, until none can be among the
  // fastest.
  std::set<std::pair<Seconds, std::size_t>> best;
  const auto may_be_best = [&](std::size_t i) {
    if (best.size() < most) {
      return true;
    }
    const auto [slowest, last] = *best.rbegin();
    return contenders[i].least <= (i < last ? 1.0 : 1.0 - kRoundingOfBound) * slowest;
  };
  while (!left.empty()) {
    const std::size_t count = std::min(std::max<std::size_t>(num_workers, 1), left.size());
    run_tasks(count, num_workers,
              [&](std::size_t, std::size_t i) { contenders[left[i]].simulate(); });
    for (std::size_t i = 0; i < count; ++i) {
      best.emplace(contenders[left[i]].least, left[i]);
      if (best.size() > most) {
        best.erase(std::prev(best.end()));
      }
    }
    left.erase(left.begin(), left.begin() + static_cast<std::ptrdiff_t>(count));
    std::erase_if(left, [&](std::size_t i) { return !may_be_best(i); });
  }
  std::vector<Plan> others;
  others.reserve(best.size());
  for (const auto& [time, i] : best) {
    others.push_back(std::move(contenders[i].plan));
  }
  return others;
}

std::vector<SimulatedPlan> simulate_plans(std::vector<Plan> plans, const SimulationOptions& options,
                                          std::size_t num_workers) {
  std::vector<SimulatedPlan> simulated(plans.size());
  run_tasks(plans.size(), num_workers, [&](std::size_t, std::size_t i) {
    simulated[i].plan = std::move(plans[i]);
    simulated[i].simulation = simulate_plan(simulated[i].plan, options);
  });
  return simulated;
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
                            std::span<const SimulatedPlan> others, std::size_t num_workers) {
  std::vector<DrawnStep> steps = {drawn(plan, simulation)};
  std::string beside;
  for (const SimulatedPlan& other : others) {
    steps.push_back(drawn(other.plan, other.simulation));
    beside += fmt::format("{} {} ({})", steps.size() == 2 ? "; the best others that fit:" : ",",
                          steps.back().name,
                          signed_percent(other.simulation.step / simulation.step - 1.0));
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
          .view = step_timeline(steps, num_workers)};
}

}  // namespace ptdp
