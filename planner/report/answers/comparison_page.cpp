// Puts a comparison of two plans into the views of a page.
#include "planner/report/answers/comparison_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "planner/answer/planning_summary.h"
#include "planner/constraints/constraint.h"

namespace ptdp {
namespace {

ReportSection keys_section(const PlanComparison& comparison) {
  TableView table{.columns = {"key", "A", "B"}, .rows = {}};
  for (const std::vector<ComparedKey>* keys : {&comparison.inputs, &comparison.config}) {
    for (const ComparedKey& key : *keys) {
      table.rows.push_back({std::string(key.key), key.values[0], key.values[1]});
    }
  }
  return {.id = "keys",
          .title = "In what do they differ?",
          .note = table.rows.empty() ? "In nothing." : "",
          .view = std::move(table)};
}

ReportSection figures_section(const PlanComparison& comparison) {
  TableView table{.columns = {"", "A", "B"}, .rows = {}};
  const std::vector<NamedFigure> first = figures_of(comparison.plans[0].plan, {});
  const std::vector<NamedFigure> second = figures_of(comparison.plans[1].plan, {});
  for (std::size_t i = 0; i < first.size(); ++i) {
    table.rows.push_back({first[i].name, first[i].value, second[i].value});
  }
  return {.id = "figures", .title = "What does each cost?", .note = "", .view = std::move(table)};
}

ReportSection terms_section(const PlanComparison& comparison) {
  StackedView view{.x = {.name = "plan", .unit = ""},
                   .y = {.name = "time of an iteration", .unit = "s"},
                   .categories = {},
                   .columns = {{.name = "A", .values = {}}, {.name = "B", .values = {}}},
                   .limit = std::nullopt};
  for (const CostTerm& term : kCostTerms) {
    view.categories.emplace_back(term.name);
    for (std::size_t which = 0; which < view.columns.size(); ++which) {
      const CostBreakdown& cost = comparison.plans.at(which).plan.predicted.breakdown;
      view.columns[which].values.push_back((cost.*term.time).value());
    }
  }
  return {.id = "terms",
          .title = "Where does the time go?",
          .note = "Calibrated terms of one iteration.",
          .view = std::move(view)};
}

/// Returns a curve over the stages of each plan.
ReportSection stages_section(const PlanComparison& comparison,
                             double (*value)(const ComparedStage&), ReportSection section, Axis y) {
  CurvesView view{
      .x = {.name = "stage", .unit = ""}, .y = std::move(y), .curves = {}, .limits = {}};
  for (std::size_t which = 0; which < comparison.stages.size(); ++which) {
    Curve& curve = view.curves.emplace_back();
    curve.name = which == 0 ? "A" : "B";
    for (const ComparedStage& stage : comparison.stages.at(which)) {
      curve.x.push_back(static_cast<double>(curve.x.size() + 1));
      curve.y.push_back(value(stage));
    }
  }
  section.view = std::move(view);
  return section;
}

ReportSection times_section(const PlanComparison& comparison) {
  return stages_section(
      comparison, [](const ComparedStage& stage) { return stage.passes.value(); },
      {.id = "stage-times",
       .title = "How long does each stage compute?",
       .note =
           "Passes of an iteration and the adding of gradients, without what a stage waits for.",
       .view = {}},
      {.name = "passes", .unit = "s"});
}

ReportSection memory_section(const PlanComparison& comparison) {
  ReportSection section = stages_section(
      comparison, [](const ComparedStage& stage) { return stage.memory.value() / kGibi; },
      {.id = "stage-memory",
       .title = "How much memory does each stage take?",
       .note = "",
       .view = {}},
      {.name = "memory", .unit = "GiB"});
  for (std::size_t which = 0; which < comparison.plans.size(); ++which) {
    const Plan& plan = comparison.plans.at(which).plan;
    const double usable =
        usable_memory(plan.scenario.cluster.gpu, plan.memory_headroom).value() / kGibi;
    std::vector<Limit>& limits = std::get<CurvesView>(section.view).limits;
    if (limits.empty() || limits.front().value != usable) {
      limits.push_back({which == 0 ? "usable by A" : "usable by B", usable});
    } else {
      limits.front().name = "usable by both";
    }
  }
  return section;
}

}  // namespace

Report comparison_report(const PlanComparison& comparison) {
  Report report{.title = "Two plans beside each other",
                .sentence = verdict_of(comparison),
                .rests_on = {},
                .sections = {}};
  for (std::size_t which = 0; which < comparison.plans.size(); ++which) {
    const NamedPlan& named = comparison.plans.at(which);
    report.rests_on.push_back(
        fmt::format("{}: {}, {} with {}; {}", which == 0 ? "A" : "B", named.name,
                    named.plan.scenario.job.model_name, to_string(named.plan.config),
                    named.plan.predicted.basis({named.plan.scenario, named.plan.config})));
  }
  report.sections = {figures_section(comparison), keys_section(comparison),
                     terms_section(comparison), times_section(comparison),
                     memory_section(comparison)};
  return report;
}

}  // namespace ptdp
