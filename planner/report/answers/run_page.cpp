#include "planner/report/answers/run_page.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/report/answers/report_parts.h"
#include "planner/report/sections/comparison_view.h"
#include "planner/report/sections/step_curves.h"
#include "planner/report/sections/step_timeline.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

using Row = std::vector<std::string>;

constexpr std::string_view kMedians =
    "Medians are taken one by one: those of parts need not add up to that of the iteration.";

/// Returns a time as people read it, or nothing for one that is not known.
std::string known(Seconds time) {
  return time > Seconds(0.0) ? duration(time) : "";
}

std::string known(Bytes size) {
  return size > Bytes(0.0) ? binary_size(size) : "";
}

/// Returns a row of a name, both values and their error.
template <class Value>
Row measured_cells(std::string name, const Measured<Value>& value) {
  return {std::move(name), known(value.predicted), known(value.measured),
          error_of(value.predicted, value.measured)};
}

void add_terms(Report& report, const RunReport& run) {
  StackedView view{.x = {.name = "iteration"},
                   .y = {.name = "time", .unit = "s"},
                   .columns = {{.name = "predicted"}, {.name = "measured"}}};
  TableView table{.columns = {"term", "predicted", "measured", "pred/meas", "90 % interval"}};
  for (const TermComparison& term : run.terms) {
    if (term.time.predicted == Seconds(0.0) && term.time.measured == Seconds(0.0)) {
      continue;
    }
    view.categories.push_back(term.name);
    view.columns[0].values.push_back(term.time.predicted.value());
    view.columns[1].values.push_back(term.time.measured.value());
    Row row = measured_cells(term.name, term.time);
    row.push_back(term.high > Seconds(0.0)
                      ? fmt::format("{} to {}", duration(term.low), duration(term.high))
                      : "");
    table.rows.push_back(std::move(row));
  }
  if (view.categories.empty()) {
    return;
  }
  if (run.predicted_time.value == Seconds(0.0)) {
    view.columns.erase(view.columns.begin());
  }
  report.sections.push_back(
      {.id = "terms",
       .title = "Where does the time go?",
       .note = fmt::format("On the rank that computes longest; collectives include waiting. {}",
                           kMedians),
       .view = std::move(view)});
  add_table(report, {.id = "terms-table", .title = "How far off is each term?"}, std::move(table));
}

/// Returns one number for each step, from the run's first one on.
StepValues by_step(const RunReport& run, const std::vector<double>& values) {
  StepValues numbered{.values = values};
  for (std::size_t i = 0; i < values.size(); ++i) {
    numbered.steps.push_back(static_cast<double>(run.execution.first_step) +
                             static_cast<double>(i));
  }
  return numbered;
}

/// Adds what steps have, one after the other; a single one makes no curve.
void add_steps(Report& report, const RunReport& run, const RunRecording& recording) {
  if (recording.step_seconds.size() > 1) {
    const std::int64_t warm_up = run.execution.warm_up;
    report.sections.push_back(
        {.id = "steps",
         .title = "How long does each iteration take?",
         .note = fmt::format("The first {} warm up and are not measured.", plural(warm_up, "step")),
         .view = times_over_steps(
             by_step(run, recording.step_seconds),
             run.predicted_time.value > Seconds(0.0) ? std::optional(run.predicted_time)
                                                     : std::nullopt,
             static_cast<double>(run.execution.first_step) + static_cast<double>(warm_up))});
  }
  if (run.losses.size() > 1) {
    report.sections.push_back(
        {.id = "loss",
         .title = "Does it learn?",
         .view = curve_over_steps({.name = "loss"}, by_step(run, run.losses))});
  }
  if (run.gradient_norms.size() > 1) {
    report.sections.push_back({.id = "norms",
                               .title = "How large are the gradients?",
                               .view = curve_over_steps({.name = "norm of the gradients"},
                                                        by_step(run, run.gradient_norms))});
  }
}

void add_timeline(Report& report, const RunReport& run, const RunRecording& recording) {
  if (!recording.step) {
    return;
  }
  std::vector<DrawnStep> steps;
  if (recording.predicted) {
    const PlanSimulation& predicted = *recording.predicted;
    steps.push_back({.name = "predicted",
                     .schedule = predicted.schedule,
                     .timeline = predicted.timeline,
                     .messages = predicted.times.messages,
                     .data = predicted.times.data,
                     .critical_path = &predicted.critical_path,
                     .bubble = predicted.bubble});
  }
  Seconds bubble;
  for (const TermComparison& term : run.terms) {
    bubble = term.name == "bubble" ? term.time.measured : bubble;
  }
  steps.push_back({.name = "measured",
                   .schedule = recording.step->schedule,
                   .timeline = recording.step->timeline,
                   .messages = recording.step->messages,
                   .bubble = bubble});
  for (const DrawnStep& step : steps) {
    if (num_actions(step.schedule) > kMostDrawnActions) {
      return;
    }
  }
  report.sections.push_back(
      {.id = "timeline",
       .title = "What did each stage do when?",
       .note = fmt::format("One pipeline in the median step{}.",
                           recording.predicted ? ", below what was predicted" : ""),
       .view = step_timeline(steps, workers_of_all_cores())});
}

void add_actions(Report& report, const RunReport& run) {
  TableView table{
      .columns = {"action", "stage", "in a step", "predicted", "measured", "pred/meas"}};
  for (const ActionComparison& action : run.actions) {
    table.rows.push_back({action.kind, std::to_string(action.stage + 1),
                          std::to_string(action.count), known(action.time.predicted),
                          known(action.time.measured),
                          error_of(action.time.predicted, action.time.measured)});
  }
  add_table(report,
            {.id = "actions",
             .title = "How long does each action take?",
             .note = fmt::format("The median of each over the steps; actions that meet other ranks "
                                 "include waiting. {}",
                                 kMedians)},
            std::move(table));
}

void add_memory_and_bytes(Report& report, const RunReport& run) {
  TableView memory{.columns = {"rank of the pipeline", "predicted", "measured", "pred/meas"}};
  for (std::size_t rank = 0; rank < run.memory.size(); ++rank) {
    memory.rows.push_back(measured_cells(std::to_string(rank), run.memory[rank].size));
  }
  add_table(report,
            {.id = "memory",
             .title = "How much memory does it take?",
             .note = "At the peak, as the allocator counts it."},
            std::move(memory));
  TableView traffic{.columns = {"group and collective", "predicted [B]", "measured [B]", ""}};
  for (const TrafficComparison& sent : run.traffic) {
    const auto [predicted, measured] = sent.bytes;
    traffic.rows.push_back({sent.group + " " + sent.collective, with_commas(predicted),
                            with_commas(measured), predicted == measured ? "equal" : "differs"});
  }
  add_table(report, {.id = "traffic", .title = "What do all ranks send in a step?"},
            std::move(traffic));
}

std::string sentence_of(const RunReport& run) {
  const std::string measured = fmt::format(
      "An iteration took {} ({} to {} over {})", duration(run.measured_time), duration(run.fastest),
      duration(run.slowest), plural(run.execution.steps - run.execution.warm_up, "step"));
  const Estimate<Seconds>& predicted = run.predicted_time;
  return predicted.value > Seconds(0.0)
             ? fmt::format("{}; predicted were {} ({}), {} to {} with 90 %.", measured,
                           duration(predicted.value), error_of(predicted.value, run.measured_time),
                           duration(predicted.low), duration(predicted.high))
             : measured + "; nothing was predicted of it.";
}

}  // namespace

Report run_page(const RunReport& run, const RunRecording& recording) {
  Report report{.title = fmt::format("{} with {}", run.plan.scenario.job.model_name,
                                     to_string(run.plan.config)),
                .sentence = sentence_of(run),
                .rests_on = {run.execution.basis}};
  add_terms(report, run);
  add_timeline(report, run, recording);
  add_steps(report, run, recording);
  add_actions(report, run);
  add_memory_and_bytes(report, run);
  std::vector<std::string> remarks;
  for (const std::string& warning : run.warnings) {
    remarks.push_back("Warning: " + warning);
  }
  for (const std::string& difference : run.differences) {
    remarks.push_back("Differs from what the plan says: " + difference);
  }
  add_remarks(report, std::move(remarks));
  return report;
}

Report run_set_page(const RunSet& set) {
  const ErrorSummary& errors = set.errors;
  Report report{.title = plural(std::ssize(set.runs), "run") + " beside their predictions",
                .sentence = fmt::format("Predictions are off by {} on average (bias {}), and by "
                                        "{} at most.",
                                        percent(errors.mean_absolute), signed_percent(errors.bias),
                                        percent(errors.max_absolute)),
                .rests_on = set.not_predicted};
  ComparedGroup group{.name = "runs"};
  for (const NamedReport& run : set.runs) {
    group.values.push_back({.name = run.name,
                            .measured = run.report.measured_time.value(),
                            .predicted = run.report.predicted_time.value.value()});
  }
  report.sections.push_back({.id = "runs",
                             .title = "How far off are predictions?",
                             .view = comparison_view({"time of an iteration", "s"}, {group}, {})});
  TableView terms{.columns = {"term", "share of the iteration", "bias", "mean error"}};
  for (const TermErrors& term : set.terms) {
    terms.rows.push_back(
        {term.name, percent(term.share), signed_percent(term.bias), percent(term.mean_absolute)});
  }
  add_table(report,
            {.id = "terms",
             .title = "Which terms are off?",
             .note = "As shares of the measured iteration, means of the runs."},
            std::move(terms));
  return report;
}

}  // namespace ptdp
