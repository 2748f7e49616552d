#include "planner/report/answers/plan_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/stack_precision.h"
#include "planner/answer/planning_output.h"
#include "planner/answer/planning_summary.h"
#include "planner/formatting.h"
#include "planner/report/answers/report_parts.h"
#include "planner/report/sections/candidate_sections.h"
#include "planner/report/sections/flip_sections.h"
#include "planner/report/sections/iteration_waterfall.h"
#include "planner/report/sections/layer_work.h"
#include "planner/report/sections/memory_sections.h"
#include "planner/report/sections/names_section.h"
#include "planner/report/sections/plan_timeline.h"
#include "planner/report/sections/traffic_section.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

ReportSection figures_section(const Plan& plan, const RunBudget& budget) {
  TableView view{.columns = {"", "predicted"}};
  for (const NamedFigure& figure : figures_of(plan, budget)) {
    view.rows.push_back({figure.name, figure.value});
  }
  return {.id = "figures", .title = "What does it cost?", .view = std::move(view)};
}

void add_published(Report& report, const PlanningResult& result) {
  TableView view{.columns = {"run", "stack", "configuration", "measured", "predicted", "error"}};
  for (const PublishedComparison& each : result.published) {
    const Seconds predicted = each.predicted.iteration_time.value;
    view.rows.push_back({each.run.id, each.run.stack, to_string(each.run.config),
                         duration(each.run.iteration_time), duration(predicted),
                         error_of(predicted, each.run.iteration_time)});
  }
  add_table(report,
            {.id = "published",
             .title = "What did others measure of this job?",
             .note = result.leaves_out_published_runs && result.calibration.is_calibrated()
                         ? "No prediction beside a run rests on that run."
                         : ""},
            std::move(view));
}

void add_layers_and_traffic(Report& report, const Plan& plan) {
  report.sections.push_back(layer_roofline(plan));
  report.sections.push_back(layer_table(plan));
  if (std::optional<ReportSection> traffic = traffic_section(plan)) {
    report.sections.push_back(*std::move(traffic));
  }
}

/// Adds where a plan's time goes, its step and its memory, found on some threads. Returns the
/// configurations whose steps are drawn.
std::vector<ParallelConfig> add_step_sections(Report& report, const Plan& plan,
                                              std::size_t num_workers) {
  report.sections.push_back(iteration_waterfall(plan));
  std::vector<Plan> plans = {plan};
  if (has_room_for_timeline(plan)) {
    std::ranges::move(best_other_schedules(plan, kDrawnOthers, num_workers),
                      std::back_inserter(plans));
    const std::vector<SimulatedPlan> steps = simulate_plans(plans, {}, num_workers);
    const PlanSimulation& own = steps.front().simulation;
    report.sections.push_back(plan_timeline(plan, own, std::span(steps).subspan(1), num_workers));
    report.sections.push_back(memory_by_stage(plan));
    report.sections.push_back(memory_over_time(plan, own));
  } else {
    report.sections.push_back(undrawn_timeline(plan));
    report.sections.push_back(memory_by_stage(plan));
  }
  std::vector<ParallelConfig> drawn;
  std::ranges::transform(plans, std::back_inserter(drawn), &Plan::config);
  return drawn;
}

/// Returns the configurations that a report of a search names beside those that it draws.
std::vector<ParallelConfig> named_configs(const PlanningResult& result) {
  std::vector<ParallelConfig> named;
  std::ranges::transform(result.plans, std::back_inserter(named), &Plan::config);
  std::ranges::transform(result.search.pareto, std::back_inserter(named), &Candidate::config);
  if (result.explanation) {
    for (const InputFlips& input : result.explanation->flips.inputs) {
      for (const FlipPoint& point : input.points) {
        if (point.best) {
          named.push_back(point.best->config);
        }
      }
    }
  }
  return named;
}

}  // namespace

std::string plan_title(const Plan& plan) {
  return fmt::format("{} on {}", plan.scenario.job.model_name,
                     devices(plan.gpus, plan.scenario.cluster.gpu));
}

std::vector<std::string> what_it_rests_on(const Plan& plan, const AnswerNotes& notes) {
  const Prediction& predicted = plan.predicted;
  std::vector<std::string> lines = {fmt::format("The time {}{}.",
                                                predicted.support.all_runs > 0 ? "" : "is ",
                                                predicted.basis({plan.scenario, plan.config}))};
  for (const std::vector<std::string>* outside :
       {&predicted.outside_runs, &predicted.extrapolations}) {
    for (const std::string& line : *outside) {
      lines.push_back("Extrapolated: " + line);
    }
  }
  for (const std::string& assumption : notes.assumptions) {
    lines.push_back("Assumed: " + assumption);
  }
  lines.push_back(fmt::format("Trains in {}.", precision_name(plan.scenario.stack)));
  return lines;
}

Report begun_report(const Plan& plan, const RunBudget& budget, const AnswerNotes& notes) {
  const Estimate<Seconds>& time = plan.predicted.iteration_time;
  Report report{.title = plan_title(plan),
                .sentence = fmt::format("{} With 90 % probability it takes {} to {}.",
                                        paragraphs_of(headline(plan)).front(), duration(time.low),
                                        duration(time.high)),
                .rests_on = what_it_rests_on(plan, notes)};
  report.sections.push_back(figures_section(plan, budget));
  return report;
}

void add_plan_sections(Report& report, const Plan& plan) {
  const std::vector<ParallelConfig> drawn = add_step_sections(report, plan, workers_of_all_cores());
  add_layers_and_traffic(report, plan);
  report.sections.push_back(names_section(drawn));
}

Report plan_report(const Plan& plan, const RunBudget& budget, const AnswerNotes& notes) {
  Report report = begun_report(plan, budget, notes);
  add_plan_sections(report, plan);
  add_remarks(report, notes.remarks, notes.next);
  return report;
}

Report planning_report(const PlanningResult& result, const RunBudget& budget,
                       const AnswerNotes& notes) {
  const Plan& best = result.plans.front();
  Report report = begun_report(best, budget, notes);
  std::vector<std::string> remarks = notes.remarks;
  append(remarks, paragraphs_of(choice_remark(result)));
  append(remarks,
         paragraphs_of(unproven_remark(result.search, result.options, result.calibration.factor)));
  add_paragraphs(report, {.id = "remarks", .title = "What to know before you use it?"}, remarks);
  if (result.explanation) {
    report.sections.push_back(explanation_section(result));
  }
  std::vector<ParallelConfig> named = named_configs(result);
  std::ranges::move(add_step_sections(report, best, result.options.num_workers),
                    std::back_inserter(named));
  report.sections.push_back(candidates_section(result));
  if (result.explanation) {
    report.sections.push_back(flips_section(result));
  }
  add_layers_and_traffic(report, best);
  add_published(report, result);
  report.sections.push_back(names_section(named));
  add_paragraphs(report, {.id = "next", .title = "What to type next?"},
                 paragraphs_of_next(notes.next));
  return report;
}

}  // namespace ptdp
