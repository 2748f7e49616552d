#include "planner/report/answers/log_page.h"

#include <fmt/format.h>

#include <filesystem>
#include <string>
#include <utility>

#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/report/answers/plan_report.h"
#include "planner/report/answers/report_parts.h"
#include "planner/report/sections/iteration_waterfall.h"
#include "planner/report/sections/measured_sections.h"
#include "planner/report/sections/memory_sections.h"
#include "planner/report/sections/step_curves.h"

namespace ptdp {
namespace {

void add_figures(Report& report, const LogReport& log) {
  TableView table{.columns = {"", "predicted", "measured", "pred/meas"}};
  for (const LogFigure& figure : figures_of(log)) {
    table.rows.push_back({figure.name, figure.predicted == kNotPredicted ? "" : figure.predicted,
                          figure.measured, figure.error});
  }
  const SteadyState& steady = log.steady;
  std::string note =
      fmt::format("80 % of the lines took {} to {}.", duration(steady.low), duration(steady.high));
  if (log.plan) {
    const Estimate<Seconds>& predicted = log.plan->predicted.iteration_time;
    note += fmt::format(" Predicted were {} to {} with 90 %, which {}.", duration(predicted.low),
                        duration(predicted.high), log.is_inside() ? "holds" : "does not hold");
  }
  add_table(
      report,
      {.id = "measured", .title = "What did an iteration really take?", .note = std::move(note)},
      std::move(table));
}

void add_times(Report& report, const LogReport& log) {
  const SteadyState& steady = log.steady;
  StepValues seconds;
  for (const LoggedTime& time : steady.times) {
    seconds.steps.push_back(static_cast<double>(time.step));
    seconds.values.push_back(time.seconds);
  }
  report.sections.push_back(
      {.id = "steps",
       .title = "How long does each iteration take?",
       .note = fmt::format(
           "The steady state is {} of {} from iteration {} on; left out are those that warm up, "
           "have another batch or skip the optimizer.{}{}",
           steady.lines, plural(std::ssize(steady.times), "line"), steady.first_step,
           steady.slow == 0 ? ""
                            : fmt::format(" {} took half as long again as the median, or longer.",
                                          plural(steady.slow, "line")),
           steady.derived_from.empty()
               ? ""
               : fmt::format(" Times follow from the log's {}.", steady.derived_from)),
       .view = times_over_steps(
           seconds, log.plan ? std::optional(log.plan->predicted.iteration_time) : std::nullopt,
           static_cast<double>(steady.first_step))});
}

void add_losses(Report& report, const LogReport& log) {
  StepValues losses;
  for (const LoggedLoss& line : log.losses) {
    losses.steps.push_back(static_cast<double>(line.step));
    losses.values.push_back(line.loss);
  }
  if (losses.steps.size() > 1) {
    report.sections.push_back(
        {.id = "loss",
         .title = "Does it learn?",
         .view = curve_over_steps({.name = "loss"}, losses,
                                  static_cast<double>(log.steady.first_step))});
  }
}

void add_memory(Report& report, const LogReport& log) {
  BarsView view{.unit = "GiB",
                .meanings = {{Tint::kCompute, "measured"}, {Tint::kPlain, "predicted"}}};
  const auto add = [&](const std::string& name, double measured, Bytes predicted) {
    if (measured > 0.0) {
      view.bars.push_back(
          {.name = name + ", measured", .value = measured / kGibi, .tint = Tint::kCompute});
      if (log.plan) {
        view.bars.push_back({.name = name + ", predicted", .value = predicted.value() / kGibi});
      }
    }
  };
  add("tensors", log.memory.allocated, log.plan ? log.plan->memory.formulas() : Bytes(0.0));
  add("allocator", log.memory.reserved, log.plan ? log.plan->memory.peak() : Bytes(0.0));
  if (!view.bars.empty()) {
    report.sections.push_back({.id = "measured-memory",
                               .title = "How much memory did a GPU take?",
                               .note = "The most of any GPU.",
                               .view = std::move(view)});
  }
}

void add_timers(Report& report, const LogReport& log) {
  if (!log.plan) {
    return;
  }
  TableView table{.columns = {"part", "predicted", "least measured", "most measured"}};
  for (const TimedPart& part : split_by_timers(log.timers, log.plan->predicted.breakdown)) {
    table.rows.push_back({std::string(part.name), duration(part.predicted), duration(part.low),
                          duration(part.high)});
  }
  add_table(
      report,
      {.id = "timers",
       .title = "Which part is off, by Megatron's timers?",
       .note = "Least and most are of all ranks; predicted is the rank that paces the others."},
      std::move(table));
}

std::string sentence_of(const LogReport& log) {
  const std::string measured =
      fmt::format("An iteration took {} in the steady state, iterations {} to {}",
                  duration(log.steady.time), log.steady.first_step, log.steady.last_step);
  if (!log.plan) {
    return measured + "; what was run is not known, so nothing was predicted of it.";
  }
  const Estimate<Seconds>& predicted = log.plan->predicted.iteration_time;
  return fmt::format("{}; predicted were {} ({}), {} to {} with 90 %.", measured,
                     duration(predicted.value), signed_percent(*log.error()),
                     duration(predicted.low), duration(predicted.high));
}

}  // namespace

void add_log_sections(Report& report, const LogReport& log) {
  add_figures(report, log);
  add_times(report, log);
  add_losses(report, log);
  add_memory(report, log);
  add_timers(report, log);
}

void add_measured_sections(Report& report, const MeasuredIteration& iteration, const Plan& plan) {
  report.sections.push_back(factor_section(iteration, plan));
  report.sections.push_back(suspects_section(iteration, plan));
}

Report log_page(const LogReport& log) {
  Report report{.title = std::filesystem::path(log.file).filename().string() +
                         (log.plan ? " beside its prediction" : ""),
                .sentence = sentence_of(log),
                .rests_on = heading_lines(log)};
  if (log.plan) {
    append(report.rests_on, what_it_rests_on(*log.plan, {.assumptions = log.assumptions}));
  }
  add_log_sections(report, log);
  if (log.plan) {
    add_measured_sections(report, compare_iteration(*log.plan, log.steady.time, log.file),
                          *log.plan);
    report.sections.push_back(iteration_waterfall(*log.plan));
    report.sections.push_back(memory_by_stage(*log.plan));
  }
  std::vector<std::string> remarks;
  for (const std::string& warning : log.warnings) {
    remarks.push_back("Doubtful: " + warning);
  }
  if (!log.plan) {
    remarks.emplace_back(kHowToPredict);
  }
  add_remarks(report, std::move(remarks));
  return report;
}

}  // namespace ptdp
