#include "planner/report/answers/validation_page.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/measured/quantile.h"
#include "cost_model/text/plural.h"
#include "planner/formatting.h"
#include "planner/report/sections/comparison_view.h"

namespace ptdp {
namespace {

/// Values by the name of their group.
using ValuesByGroup = std::map<std::string, std::vector<ComparedValue>>;

std::vector<ComparedGroup> groups_of(ValuesByGroup&& values) {
  std::vector<ComparedGroup> groups;
  for (auto& [name, of_group] : values) {
    groups.push_back({name.empty() ? "no group" : name, std::move(of_group)});
  }
  return groups;
}

/// Returns the median ends of the rows' 90 % intervals of measured/predicted.
RelativeInterval median_interval(const std::vector<ValidatedRun>& rows) {
  std::vector<double> low;
  std::vector<double> high;
  for (const ValidatedRun& row : rows) {
    const Estimate<Seconds> time = row.predicted();
    low.push_back(time.low / time.value);
    high.push_back(time.high / time.value);
  }
  return {.low = median(std::move(low)), .high = median(std::move(high))};
}

ReportSection times_section(const ValidationReport& validation) {
  ValuesByGroup values;
  for (const ValidatedRun& row : validation.rows) {
    const MeasuredRun& run = row.costed.run;
    values[run.group].push_back(
        {.name = run.id,
         .note = fmt::format("{}{}", to_string(run.config),
                             row.is_inside_interval() ? "" : ", outside its interval"),
         .measured = run.iteration_time.value(),
         .predicted = row.predicted().value.value()});
  }
  const RelativeInterval interval = median_interval(validation.rows);
  return {
      .id = "times",
      .title = "How far off are predicted times?",
      .note = fmt::format("Above the diagonal a run was faster than predicted. The band is the "
                          "median 90 % interval of the rows: a measured time is {:.3g} to "
                          "{:.3g} times the predicted one. Pointing at a group's name shows its "
                          "runs alone.",
                          interval.low, interval.high),
      .view =
          comparison_view({"time of an iteration", "s"}, groups_of(std::move(values)), interval)};
}

std::vector<std::string> cells_of(const GroupErrors& group) {
  const ErrorSummary& errors = group.errors;
  return {group.group.empty() ? "no group" : group.group,
          std::to_string(errors.count),
          percent(errors.mean_absolute),
          percent(errors.max_absolute),
          signed_percent(errors.bias),
          percent(group.inside_interval),
          percent(group.median_half_width)};
}

ReportSection groups_section(const ValidationReport& validation) {
  TableView view{.columns = {"group", "runs", "mean error", "largest", "bias",
                             "inside the interval", "half-width of intervals"}};
  for (const GroupErrors& group : validation.groups) {
    view.rows.push_back(cells_of(group));
  }
  view.rows.push_back(cells_of(validation.total));
  return {.id = "groups",
          .title = "Which groups are off?",
          .note = "Errors are predicted over measured time, minus 1; a half-width is the median.",
          .view = std::move(view)};
}

void add_partial_rows(Report& report, const ValidationReport& validation) {
  if (validation.partial.empty()) {
    return;
  }
  ValuesByGroup values;
  for (const ValidatedPartialRun& row : validation.partial) {
    values[row.group].push_back(
        {.name = row.id,
         .note = fmt::format("{} to {}", duration(row.low), duration(row.high)),
         .measured = row.best.costed.run.iteration_time.value(),
         .predicted = row.best.predicted().value.value()});
  }
  report.sections.push_back(
      {.id = "partial-rows",
       .title = "And of runs that leave fields out?",
       .note = "Each is predicted as the fastest way to fill its fields in; the range is over all "
               "ways near that one.",
       .view = comparison_view({"time of an iteration", "s"}, groups_of(std::move(values)), {})});
}

void add_memory(Report& report, const MemoryReport& memory) {
  if (memory.rows.empty()) {
    return;
  }
  ValuesByGroup values;
  for (const ValidatedMemory& row : memory.rows) {
    values[row.group].push_back({.name = row.id,
                                 .note = row.stack,
                                 .measured = row.measured.value() / kGibi,
                                 .predicted = (row.formulas + row.reserve).value() / kGibi});
  }
  report.sections.push_back(
      {.id = "memory",
       .title = "How far off is predicted memory?",
       .note = fmt::format("By the formulas with the stack's reserve, off by {} on average.",
                           percent(memory.total.as_it_is.mean_absolute)),
       .view = comparison_view({"memory of a GPU", "GiB"}, groups_of(std::move(values)), {})});
}

}  // namespace

Report validation_page(const ValidationReport& validation) {
  const ErrorSummary& errors = validation.total.errors;
  Report report{
      .title = plural(std::ssize(validation.rows), "measured run") + " beside their predictions",
      .sentence = fmt::format("Predicted times are off by {} on average, half of them by less than "
                              "{}; {} of the runs lie inside their 90 % interval.",
                              percent(errors.mean_absolute), percent(errors.median_absolute),
                              percent(validation.total.inside_interval)),
      .rests_on = {fmt::format(
          "Calibration: {}.",
          name_of(validation.calibration, NamedValues<CalibrationKind>(kCalibrationKindNames)))}};
  if (!validation.skipped.empty()) {
    report.rests_on.push_back(fmt::format("{} could not be costed and {} left out.",
                                          plural(std::ssize(validation.skipped), "row"),
                                          validation.skipped.size() == 1 ? "is" : "are"));
  }
  if (!validation.rows.empty()) {
    report.sections.push_back(times_section(validation));
    report.sections.push_back(groups_section(validation));
  }
  add_partial_rows(report, validation);
  add_memory(report, validation.memory);
  return report;
}

}  // namespace ptdp
