#include "planner/report/answers/simulation_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "planner/answer/simulation_output.h"
#include "planner/formatting.h"
#include "planner/report/answers/plan_report.h"
#include "planner/report/sections/memory_sections.h"
#include "planner/report/sections/plan_timeline.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

constexpr double kVisibleShare = 0.01;  // of the largest: bars below that can't be seen

Tint tint_of(PathTerm term) {
  switch (term) {
    case PathTerm::kForward:
    case PathTerm::kBackward:
    case PathTerm::kInputGradient:
    case PathTerm::kWeightGradient:
      return Tint::kCompute;
    case PathTerm::kRecompute:
      return Tint::kWaste;
    case PathTerm::kOptimizer:
      return Tint::kOptimizer;
    case PathTerm::kWaiting:
      return Tint::kIdle;
    default:
      return Tint::kCommunication;
  }
}

ReportSection path_section(const PlanSimulation& simulation) {
  const Seconds makespan = simulation.timeline.times.makespan();
  BarsView view{.unit = "s",
                .is_waterfall = true,
                .total = Bar{.name = "until the last action", .value = makespan.value()}};
  for (int number = 0; number < kNumPathTerms; ++number) {
    const auto term = static_cast<PathTerm>(number);
    if (const Seconds time = simulation.critical_path.term(term); time > Seconds(0.0)) {
      view.bars.push_back({.name = std::string(kPathTermNames.at(static_cast<std::size_t>(number))),
                           .value = time.value(),
                           .tint = tint_of(term)});
    }
  }
  return {.id = "critical-path",
          .title = "Which actions make the step as long as it is?",
          .note =
              "The critical path: a chain of actions of which each could start when the one "
              "before it was done.",
          .view = std::move(view)};
}

ReportSection slowdown_section(const PlanSimulation& simulation) {
  BarsView view{.unit = "%"};
  const double most = std::ranges::max(simulation.elasticities);
  for (std::size_t rank = 0; rank < simulation.elasticities.size(); ++rank) {
    if (const double percents = simulation.elasticities[rank]; percents > kVisibleShare * most) {
      view.bars.push_back({.name = fmt::format("rank {}", rank), .value = percents});
    }
  }
  return {.id = "slower-rank",
          .title = "What does a slower rank cost?",
          .note =
              "By how many percent the step grows per percent by which a rank's compute slows "
              "down; ranks that cost less than a hundredth of the largest are left out.",
          .view = std::move(view)};
}

/// Returns what the options change about the plan as it stands, a line each.
std::vector<std::string> lines_of(const SimulationOptions& options) {
  std::vector<std::string> lines;
  for (const Straggler& straggler : options.stragglers) {
    lines.push_back(fmt::format("Rank {} takes {} times as long to compute.", straggler.rank,
                                straggler.factor));
  }
  if (options.jitter.sigma > 0.0) {
    lines.push_back(fmt::format(
        "Every action takes exp({} z) times as long, z drawn from a normal distribution; seed {}.",
        options.jitter.sigma, options.jitter.seed));
  }
  if (!options.shares_links) {
    lines.emplace_back("Transfers at the same time do not share links.");
  }
  return lines;
}

/// Returns what tells in which way the plan can have a schedule.
Tint tint_of(const Plan& plan, const ScheduleComparison& row) {
  return row.schedule == name_of(plan.config.schedule) ? Tint::kCompute
         : !row.fits || row.changes_semantics          ? Tint::kIdle
         : row.is_run_by_stack                         ? Tint::kCommunication
                                                       : Tint::kPlain;
}

/// Returns the plan's step beside its best other schedules.
ReportSection timeline_beside_others(const Plan& plan, const PlanSimulation& simulation,
                                     const SimulationOptions& options) {
  const std::size_t num_workers = workers_of_all_cores();
  const std::vector<SimulatedPlan> others =
      simulate_plans(best_other_schedules(plan, kDrawnOthers, num_workers), options, num_workers);
  return plan_timeline(plan, simulation, others, num_workers);
}

}  // namespace

Report simulation_report(const Plan& plan, const PlanSimulation& simulation,
                         const SimulationOptions& options) {
  const Seconds planned = plan.predicted.iteration_time.value;
  Report report{.title = plan_title(plan) + ", simulated",
                .sentence = fmt::format(
                    "With {} a step takes {} simulated, {} planned ({}); the rank that "
                    "paces it waits {} ({}) for others.",
                    to_string(plan.config), duration(simulation.step), duration(planned),
                    signed_percent(simulation.step / planned - 1.0), duration(simulation.bubble),
                    percent(simulation.bubble / simulation.step)),
                .rests_on = lines_of(options)};
  for (std::string& line : what_it_rests_on(plan, {})) {
    report.rests_on.push_back(std::move(line));
  }
  report.sections = {has_room_for_timeline(plan) ? timeline_beside_others(plan, simulation, options)
                                                 : undrawn_timeline(plan),
                     path_section(simulation), slowdown_section(simulation), memory_by_stage(plan),
                     memory_over_time(plan, simulation)};
  return report;
}

Report schedules_report(const Plan& plan, const std::vector<ScheduleComparison>& schedules) {
  BarsView bars{.unit = "s",
                .meanings = {{Tint::kCompute, "the plan's own"},
                             {Tint::kCommunication, "can replace it"},
                             {Tint::kPlain, "could, but not run by " + plan.scenario.stack.name},
                             {Tint::kIdle, "does not fit, or changes the optimizer"}}};
  const ScheduleComparison* best = nullptr;
  const std::vector<ScheduleComparison> rows = fastest_first(schedules);
  TableView table{.columns = {"schedule", "vpp", "step", "bubble", "memory", "remarks"}};
  for (const ScheduleComparison& row : rows) {
    if (!row.conflict.empty()) {
      table.rows.push_back({row.schedule, "", "", "", "", row.conflict});
      continue;
    }
    const std::string remarks = remarks_on(plan, row);
    const bool can_replace = row.fits && !row.changes_semantics;
    best = best == nullptr && can_replace ? &row : best;
    bars.bars.push_back({.name = row.schedule,
                         .value = row.step.value(),
                         .tint = tint_of(plan, row),
                         .note = remarks});
    table.rows.push_back({row.schedule, std::to_string(row.vpp), duration(row.step),
                          percent(row.bubble / row.step), binary_size(row.peak_memory), remarks});
  }
  Report report{.title = plan_title(plan) + ", simulated with every schedule",
                .sentence = fmt::format("The plan is {}. {}", to_string(plan.config),
                                        best == nullptr
                                            ? "No schedule fits."
                                            : fmt::format("Of the schedules that fit and keep the "
                                                          "optimizer, {} takes least: {} a step.",
                                                          best->schedule, duration(best->step))),
                .rests_on = what_it_rests_on(plan, {})};
  report.sections = {
      {.id = "schedules",
       .title = "How long does a step take with each schedule?",
       .note = "",
       .view = std::move(bars)},
      {.id = "schedules-table",
       .title = "What else does each schedule take?",
       .note =
           "The bubble is the share of the step in which the rank that paces the pipeline waits "
           "for others; memory is that of the heaviest rank as simulated.",
       .view = std::move(table)}};
  return report;
}

}  // namespace ptdp
