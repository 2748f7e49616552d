#include "planner/report/answers/plan_report.h"

#include <fmt/format.h>

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

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

/// Adds where a plan's time goes, its step and its memory, found on some threads.
void add_step_sections(Report& report, const Plan& plan, std::size_t num_workers) {
  report.sections.push_back(iteration_waterfall(plan));
  if (has_room_for_timeline(plan)) {
    std::vector<Plan> plans = best_other_schedules(plan, kDrawnOthers, num_workers);
    plans.insert(plans.begin(), plan);
    const std::vector<SimulatedPlan> steps = simulate_plans(std::move(plans), {}, num_workers);
    const PlanSimulation& own = steps.front().simulation;
    report.sections.push_back(plan_timeline(plan, own, std::span(steps).subspan(1), num_workers));
    report.sections.push_back(memory_by_stage(plan));
    report.sections.push_back(memory_over_time(plan, own));
  } else {
    report.sections.push_back(undrawn_timeline(plan));
    report.sections.push_back(memory_by_stage(plan));
  }
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
  add_step_sections(report, plan, workers_of_all_cores());
  add_layers_and_traffic(report, plan);
}

Report plan_report(const Plan& plan, const RunBudget& budget, const AnswerNotes& notes) {
  Report report = begun_report(plan, budget, notes);
  add_plan_sections(report, plan);
  report.sections.push_back(names_section({plan}));
  add_remarks(report, notes.remarks, notes.next);
  return report;
}

Report planning_report(const PlanningResult& result, const RunBudget& budget,
                       const AnswerNotes& notes) {
  const Plan& best = result.plans.front();
  Report report = begun_report(best, budget, notes);
  if (result.explanation) {
    report.sections.push_back(explanation_section(result));
  }
  add_step_sections(report, best, result.options.num_workers);
  report.sections.push_back(candidates_section(result));
  if (result.explanation) {
    report.sections.push_back(flips_section(result));
  }
  add_layers_and_traffic(report, best);
  add_published(report, result);
  std::vector<std::string> remarks = paragraphs_of(choice_remark(result));
  append(remarks,
         paragraphs_of(unproven_remark(result.search, result.options, result.calibration.factor)));
  append(remarks, notes.remarks);
  report.sections.push_back(names_section(result.plans));
  add_remarks(report, std::move(remarks), notes.next);
  return report;
}

}  // namespace ptdp
