#include "planner/report/answers/alternatives_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/text/plural.h"
#include "planner/answer/memory_text.h"
#include "planner/explain/explain.h"
#include "planner/formatting.h"
#include "planner/report/answers/plan_report.h"
#include "planner/report/answers/report_parts.h"
#include "planner/report/sections/iteration_waterfall.h"
#include "planner/report/sections/memory_sections.h"

namespace ptdp {
namespace {

/// One of several ways to do the job, with its best plan.
struct Alternative {
  std::string name;
  const Plan* plan = nullptr;
  double loss = 0.0;                 ///< How much worse it is than the best, as a fraction.
  std::string faster;                ///< How likely it is faster than the best; may be empty.
  std::string basis;                 ///< What its time rests on; empty if that is said of all.
  std::vector<std::string> remarks;  ///< What else to know of it.
  bool is_run = true;                ///< Whether the stack runs it.
};

/// All alternatives of an answer.
struct Alternatives {
  std::string kind;   ///< What they are: "stack".
  std::string kinds;  ///< Several of them: "stacks".
  std::string stack;  ///< The stack of those that it may not run; else empty.
  Objective objective = {};
  std::vector<Alternative> rows;  ///< Those with a plan, the best first.
  TableView without;              ///< Those without one, and why.
  std::string note;               ///< What to know of them all.
};

std::string_view least_text(const Alternatives& all) {
  return all.objective == Objective::kCost ? "costs least GPU time" : "takes least time";
}

std::string remark_unless_proven(const SearchResult& search, double calibration_factor) {
  return search.is_proven || !search.unseen
             ? ""
             : "not proven: what was not looked at takes at least " +
                   duration(search.unseen->least_time * calibration_factor);
}

void add_remark(Alternative& alternative, std::string remark) {
  if (!remark.empty()) {
    alternative.remarks.push_back(std::move(remark));
  }
}

ReportSection times_section(const Alternatives& all) {
  BarsView view{.unit = "s",
                .meanings = {{Tint::kCompute, "the best"},
                             {Tint::kPlain, "others"},
                             {Tint::kIdle, "not run by " + all.stack}}};
  for (const Alternative& row : all.rows) {
    const Estimate<Seconds>& time = row.plan->predicted.iteration_time;
    view.bars.push_back({.name = row.name,
                         .value = time.value.value(),
                         .tint = !row.is_run                 ? Tint::kIdle
                                 : &row == &all.rows.front() ? Tint::kCompute
                                                             : Tint::kPlain,
                         .low = time.low.value(),
                         .high = time.high.value(),
                         .note = to_string(row.plan->config)});
  }
  return {
      .id = "times",
      .title = fmt::format("Which {} {}?", all.kind, least_text(all)),
      .note = fmt::format(
          "An iteration with the best plan of each, and the interval that holds it with 90 %.{}",
          all.objective == Objective::kCost
              ? " They stand by what they cost: GPUs in use times that time."
              : ""),
      .view = std::move(view)};
}

ReportSection table_section(const Alternatives& all) {
  TableView table{.columns = {all.kind, "time",
                              all.objective == Objective::kCost ? "cost" : "slower",
                              "may beat the best", "MFU", "memory", "fits with", "configuration",
                              "rests on", "remarks"}};
  for (const Alternative& row : all.rows) {
    const Plan& plan = *row.plan;
    table.rows.push_back(
        {row.name, duration(plan.predicted.iteration_time.value), signed_percent(row.loss),
         row.faster, percent(plan.predicted.mfu.value),
         fmt::format("{:.1f} GiB", plan.memory.peak().value() / kGibi),
         plan.memory.beyond.is_known()
             ? likelihood_text(plan.memory.probability_of_fitting, plan.memory.beyond.support)
             : "",
         to_string(plan.config), row.basis, fmt::format("{}", fmt::join(row.remarks, "; "))});
  }
  return {.id = "alternatives",
          .title = fmt::format("What else sets the {} apart?", all.kinds),
          .note = "Memory is that of the heaviest stage. " + all.note,
          .view = std::move(table)};
}

/// Returns what an alternative spends more and less time on than the best one.
std::string beside_the_best(const Alternatives& all, const Alternative& row) {
  const auto cost = [&](const Plan& plan) {
    return counted(plan.predicted.breakdown, plan.config, all.objective);
  };
  return row.loss == 0.0
             ? to_string(row.plan->config)
             : fmt::format("{}. Beside {}: {}.", to_string(row.plan->config), all.rows[0].name,
                           describe_differences(cost(*row.plan), cost(*all.rows[0].plan),
                                                unit_of(all.objective)));
}

ReportSection waterfalls_section(const Alternatives& all) {
  ChoicesView view;
  for (const Alternative& row : all.rows) {
    ReportSection waterfall = iteration_waterfall(*row.plan);
    view.choices.push_back({.name = row.name,
                            .note = beside_the_best(all, row),
                            .picture = std::get<BarsView>(std::move(waterfall.view))});
  }
  return {.id = "time",
          .title = "Where does the time of an iteration go?",
          .note = fmt::format("Of the {} that is chosen: from what the peak would take to what is "
                              "predicted; the bars add up.",
                              all.kind),
          .view = std::move(view)};
}

ReportSection memories_section(const Alternatives& all) {
  ChoicesView view;
  for (const Alternative& row : all.rows) {
    ReportSection memory = memory_by_stage(*row.plan);
    view.choices.push_back({.name = row.name,
                            .note = std::move(memory.note),
                            .picture = std::get<StackedView>(std::move(memory.view))});
  }
  return {.id = "memory",
          .title = "What fills the memory of a GPU?",
          .note = fmt::format("By the {} that is chosen.", all.kind),
          .view = std::move(view)};
}

/// Returns which alternative is best, and which comes next.
std::string sentence_of(const Alternatives& all, const Scenario& scenario,
                        const SearchOptions& options) {
  const Alternative& best = all.rows.front();
  const Estimate<Seconds>& time = best.plan->predicted.iteration_time;
  std::string text = fmt::format(
      "To train {} on {} ({}), {} {}: {} per iteration of {} sequences, {} to {} with 90 %, with "
      "{}{}.",
      scenario.job.model_name, devices(options.gpus, scenario.cluster.gpu), scenario.cluster.name,
      best.name, least_text(all), duration(time.value), scenario.job.global_batch_size,
      duration(time.low), duration(time.high), to_string(best.plan->config),
      best.is_run ? "" : fmt::format(", which {} does not run", all.stack));
  if (all.rows.size() > 1) {
    const Alternative& next = all.rows[1];
    text += fmt::format(
        " Next comes {} with {}{}.", next.name, duration(next.plan->predicted.iteration_time.value),
        next.faster.empty() ? "" : fmt::format(" ({} likely the faster one)", next.faster));
  }
  return text;
}

Report alternatives_report(const Alternatives& all, std::string sentence,
                           std::vector<std::string> rests_on, const AnswerNotes& notes) {
  const Scenario& scenario = all.rows.front().plan->scenario;
  Report report{
      .title = fmt::format("{} on {}: {} beside each other", scenario.job.model_name,
                           devices(all.rows.front().plan->gpus, scenario.cluster.gpu), all.kinds),
      .sentence = std::move(sentence),
      .rests_on = std::move(rests_on)};
  for (const std::string& assumption : notes.assumptions) {
    report.rests_on.push_back("Assumed: " + assumption);
  }
  report.sections = {times_section(all), table_section(all), waterfalls_section(all),
                     memories_section(all)};
  add_table(report,
            {.id = "without", .title = fmt::format("Which {} have no plan, and why?", all.kinds)},
            all.without);
  add_remarks(report, notes.remarks, notes.next);
  return report;
}

}  // namespace

Report stacks_report(const StackComparison& comparison, const AnswerNotes& notes) {
  Alternatives all{.kind = "stack",
                   .kinds = "stacks",
                   .objective = comparison.options.objective,
                   .without = {.columns = {"stack", "reason"}},
                   .note = "What may beat the best does so with that probability."};
  const StackResult& best = comparison.results.front();
  for (const StackResult& result : comparison.results) {
    if (!result.plan) {
      all.without.rows.push_back({result.stack, result.reason});
      continue;
    }
    const Plan& plan = *result.plan;
    Alternative row{
        .name = result.stack,
        .plan = &plan,
        .loss = loss(comparison, result),
        .faster = &result == &best
                      ? ""
                      : fmt::format("{:.0f} %", 100.0 * probability_faster(
                                                            plan.predicted.iteration_time,
                                                            best.plan->predicted.iteration_time)),
        .basis = plan.predicted.basis({plan.scenario, plan.config})};
    if (const std::int64_t idle = plan.gpus - plan.config.world_size(); idle > 0) {
      add_remark(row, devices(idle, plan.scenario.cluster.gpu) + " idle");
    }
    add_remark(row, remark_unless_proven(result.search, plan.predicted.calibration_factor));
    all.rows.push_back(std::move(row));
  }
  return alternatives_report(
      all, sentence_of(all, comparison.scenario, comparison.options),
      {"Each stack is calibrated by its own runs; errors of two stacks count as independent."},
      notes);
}

Report strategies_report(const StrategyComparison& comparison, const AnswerNotes& notes) {
  Alternatives all{.kind = "strategy",
                   .kinds = "strategies",
                   .stack = comparison.scenario.stack.name,
                   .objective = comparison.options.objective,
                   .without = {.columns = {"strategy", "reason", "remarks"}},
                   .note = strategies_text()};
  for (const StrategyResult& result : comparison.results) {
    const std::string name(result.name.name);
    const std::string remark = remark_on(comparison, result);
    if (!result.plan) {
      all.without.rows.push_back({name, result.reason, remark});
      continue;
    }
    Alternative row{.name = name,
                    .plan = &*result.plan,
                    .loss = loss(comparison, result),
                    .is_run = result.is_run_by_stack};
    add_remark(row, result.is_run_by_stack ? "" : "not run by " + all.stack);
    add_remark(row, remark);
    add_remark(row, remark_unless_proven(result.search, comparison.calibration.factor));
    all.rows.push_back(std::move(row));
  }
  std::ranges::stable_sort(all.rows, {}, &Alternative::loss);
  std::vector<std::string> rests_on = {
      comparison.calibration.is_calibrated()
          ? fmt::format("All times have one factor, which rests on {}; what is wrong with it moves "
                        "them alike.",
                        to_text(comparison.calibration.support))
          : "The times are not calibrated."};
  append(rests_on,
         paragraphs_of(beyond_line(comparison.memory, comparison.scenario.cluster.gpu.memory,
                                   comparison.options.memory_headroom)));
  return alternatives_report(all, sentence_of(all, comparison.scenario, comparison.options),
                             std::move(rests_on), notes);
}

}  // namespace ptdp
