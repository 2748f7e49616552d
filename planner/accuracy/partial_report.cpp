// Predicts rows that leave fields out, and prints their ranges as tables and JSON.
#include "planner/accuracy/partial_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "cost_model/measured/quantile.h"
#include "cost_model/measured/run_point.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/partial_runs.h"

namespace ptdp {
namespace {

/// Calibrates partial rows by complete ones.
class CompleteRuns {
 public:
  CompleteRuns(const CostedRuns& runs, CalibrationKind kind) : runs_(runs), kind_(kind) {}

  /// Returns the calibration of each of the row's completions, in order.
  [[nodiscard]] std::vector<Calibration> calibrations_of(const PartialRun& partial) {
    std::vector<Calibration> calibrations(partial.completions.size());
    if (kind_ == CalibrationKind::kNone) {
      return calibrations;
    }
    for (std::size_t i = 0; i < calibrations.size(); ++i) {
      const CostedRun& run = partial.completions[i];
      calibrations[i] = kind_ == CalibrationKind::kShipped
                            ? published().calibration(run)
                            : rows_without(partial.group).calibration(run);
    }
    return calibrations;
  }

 private:
  /// Returns the published runs, which are read once they are needed.
  PublishedLevels& published() {
    if (!published_) {
      published_.emplace();
    }
    return *published_;
  }

  /// Returns the levels of the complete rows, without a group where groups are left out.
  RowLevels& rows_without(const std::string& group) {
    const std::optional<std::string> left_out =
        kind_ == CalibrationKind::kLeaveOneGroupOut ? std::optional(group) : std::nullopt;
    return rows_.try_emplace(left_out, shipped_levels().time.model, runs_.costed, left_out)
        .first->second;
  }

  const CostedRuns& runs_;
  CalibrationKind kind_;
  std::optional<PublishedLevels> published_;
  std::map<std::optional<std::string>, RowLevels> rows_;
};

ValidatedPartialRun validated(const PartialRun& partial, CompleteRuns& complete) {
  const std::vector<Calibration> calibrations = complete.calibrations_of(partial);
  std::vector<ValidatedRun> completions;
  for (std::size_t i = 0; i < calibrations.size(); ++i) {
    completions.push_back({.costed = partial.completions[i], .calibration = calibrations[i]});
  }
  const auto best = std::min_element(
      completions.begin(), completions.end(), [](const ValidatedRun& a, const ValidatedRun& b) {
        return gpu_time_per_sequence(a.predicted().value, a.costed.run) <
               gpu_time_per_sequence(b.predicted().value, b.costed.run);
      });
  ValidatedPartialRun row{.id = partial.id,
                          .group = partial.group,
                          .unknown = partial.unknown,
                          .tried = partial.tried,
                          .num_ways = partial.num_ways,
                          .num_near = static_cast<int>(completions.size()),
                          .fits = partial.fits,
                          .best = *best,
                          .fastest = best->predicted().value,
                          .slowest = best->predicted().value,
                          .low = best->predicted().low,
                          .high = best->predicted().high};
  for (const ValidatedRun& run : completions) {
    const double of_best = best->costed.run.iteration_time / run.costed.run.iteration_time;
    const Estimate<Seconds> time = run.predicted();
    row.fastest = std::min(row.fastest, time.value * of_best);
    row.slowest = std::max(row.slowest, time.value * of_best);
    row.low = std::min(row.low, time.low * of_best);
    row.high = std::max(row.high, time.high * of_best);
  }
  return row;
}

PartialGroup summary_of(const std::string& name,
                        const std::vector<const ValidatedPartialRun*>& rows) {
  PartialGroup group{.group = name, .rows = static_cast<int>(rows.size())};
  std::vector<double> half_widths;
  std::vector<double> errors;
  const double each = 1.0 / static_cast<double>(rows.size());
  for (const ValidatedPartialRun* row : rows) {
    group.calibrated += row->best.calibration.is_calibrated() ? 1 : 0;
    group.too_large += row->fits ? 0 : 1;
    group.inside_interval += row->is_inside_interval() ? each : 0.0;
    group.best_inside += row->best.is_inside_interval() ? each : 0.0;
    half_widths.push_back(row->half_width());
    errors.push_back(std::abs(row->best.error()));
  }
  group.median_half_width = median(half_widths);
  group.median_best_error = median(errors);
  return group;
}

std::string best_of(const ValidatedPartialRun& row) {
  const MeasuredRun& run = row.best.costed.run;
  return fmt::format("{}, batch {}", to_string(run.config), run.global_batch_size);
}

}  // namespace

bool ValidatedPartialRun::is_inside_interval() const {
  const Seconds measured = best.costed.run.iteration_time;
  return low <= measured && measured <= high;
}

double ValidatedPartialRun::half_width() const {
  return (high - low) / (high + low);
}

std::vector<ValidatedPartialRun> validate_partial_runs(const CostedRuns& runs,
                                                       CalibrationKind calibration) {
  CompleteRuns complete(runs, calibration);
  std::vector<ValidatedPartialRun> rows;
  rows.reserve(runs.partial.size());
  for (const PartialRun& partial : runs.partial) {
    rows.push_back(validated(partial, complete));
  }
  return rows;
}

std::vector<PartialGroup> partial_groups(const std::vector<ValidatedPartialRun>& runs) {
  std::map<std::string, std::vector<const ValidatedPartialRun*>> by_group;
  std::vector<const ValidatedPartialRun*> all;
  for (const ValidatedPartialRun& run : runs) {
    by_group[run.group].push_back(&run);
    all.push_back(&run);
  }
  std::vector<PartialGroup> groups;
  groups.reserve(by_group.size() + 1);
  for (const auto& [name, rows] : by_group) {
    groups.push_back(summary_of(name.empty() ? "(none)" : name, rows));
  }
  if (!all.empty()) {
    groups.push_back(summary_of("all", all));
  }
  return groups;
}

std::string to_text(const std::vector<ValidatedPartialRun>& runs) {
  std::string text = fmt::format(
      "\n{:<28} {:>10}  {:^21}  {:^21} {:>7}  {:>17}  {}\n{:<28} {:>10}  {:>10} {:>10}"
      "  {:>10} {:>10} {:>7}\n",
      "rows with unknown fields", "measured s", "range of predictions", "with 90 % intervals",
      "error", "tried   fit  near", "best, and what is unknown", "", "", "fastest", "slowest",
      "low", "high", "of best");
  for (const ValidatedPartialRun& row : runs) {
    text += fmt::format(
        "{:<28} {:>10.4g}  {:>10.4g} {:>10.4g}  {:>10.4g} {:>10.4g} {:>+6.1f}%  {:>5} {:>5} {:>5}  "
        "{} ({}){}{}\n",
        row.id, row.best.costed.run.iteration_time.value(), row.fastest.value(),
        row.slowest.value(), row.low.value(), row.high.value(), 100.0 * row.best.error(), row.tried,
        row.fits ? row.num_ways : 0, row.num_near, best_of(row), fmt::join(row.unknown, ", "),
        row.is_inside_interval() ? "" : "  outside", row.fits ? "" : "  too large");
  }
  text += fmt::format("\n{:<24} {:>5} {:>7} {:>9} {:>12} {:>11}\n", "group [%]", "rows", "inside",
                      "± median", "best: inside", "|error|");
  for (const PartialGroup& group : partial_groups(runs)) {
    text += fmt::format("{:<24} {:>5} {:>7.0f} {:>9.1f} {:>12.0f} {:>11.1f}\n", group.group,
                        group.rows, 100.0 * group.inside_interval, 100.0 * group.median_half_width,
                        100.0 * group.best_inside, 100.0 * group.median_best_error);
  }
  return text +
         fmt::format(
             "\nA row with unknown fields is predicted over the ways to fill them in that the "
             "stack runs,\nthat fit into memory, and that take at most {} times the least GPU time "
             "for a sequence,\nuncalibrated; best: the least. Where the batch is unknown, times "
             "are for the batch of the\nbest. Such rows count in no error and calibrate nothing. "
             "Too large: by the memory model no\nway fits, though the run did.\n",
             kNearTheFastest);
}

std::vector<ObjectWriter> partial_json(const std::vector<ValidatedPartialRun>& runs) {
  std::vector<ObjectWriter> rows;
  for (const ValidatedPartialRun& row : runs) {
    const MeasuredRun& run = row.best.costed.run;
    const Estimate<Seconds> predicted = row.best.predicted();
    ObjectWriter best;
    best.object("config", run.config);
    best.number("global_batch_size", static_cast<double>(run.global_batch_size));
    best.number("predicted_s", predicted.value.value());
    best.numbers("interval_s", {predicted.low.value(), predicted.high.value()});
    best.number("error_pct", 100.0 * row.best.error());
    best.number("calibration_factor", row.best.calibration.factor);
    describe_support(best, row.best.calibration.support);
    ObjectWriter& json = rows.emplace_back();
    json.text("id", row.id);
    json.text("group", row.group);
    json.text("cluster", run.cluster);
    json.text("stack", run.stack);
    json.texts("unknown", row.unknown);
    json.count("tried", static_cast<int>(row.tried));
    json.count("completions", static_cast<int>(row.num_ways));
    json.count("near", row.num_near);
    json.flag("fits", row.fits);
    json.number("measured_s", run.iteration_time.value());
    json.numbers("predicted_s", {row.fastest.value(), row.slowest.value()});
    json.numbers("interval_s", {row.low.value(), row.high.value()});
    json.flag("inside", row.is_inside_interval());
    json.child("best", std::move(best));
  }
  return rows;
}

std::string partial_section(const std::vector<ValidatedPartialRun>& none,
                            const std::vector<ValidatedPartialRun>& calibrated) {
  std::string text =
      "\n## Partial rows\n\n"
      "Rows whose sources leave fields out, predicted over the ways to fill them in that the "
      "stack\n"
      "runs, that fit into memory and that are near the fastest: a range from the least lower to\n"
      "the largest upper end of their 90 % intervals. Best: the fastest way, what a good engineer\n"
      "would have chosen. Calibrated: by the complete rows; partial rows calibrate nothing. ±: "
      "half\n"
      "the range over its middle, median [%]. Too large: rows none of whose ways fits by the "
      "model\n"
      "of memory, though the runs did.\n\n";
  if (none.empty()) {
    return text + "None.\n";
  }
  text +=
      "| group | rows | too large | as it is: inside | ± | best: inside | median error | "
      "calibrated rows | "
      "inside | ± | best: inside | median error "
      "|\n|---|---|---|---|---|---|---|---|---|---|---|---|\n";
  const std::vector<PartialGroup> as_is = partial_groups(none);
  const std::vector<PartialGroup> by_rows = partial_groups(calibrated);
  const auto cells = [](const PartialGroup& group) {
    return fmt::format("{:.0f} | {:.1f} | {:.0f} | {:.1f}", 100.0 * group.inside_interval,
                       100.0 * group.median_half_width, 100.0 * group.best_inside,
                       100.0 * group.median_best_error);
  };
  for (std::size_t i = 0; i < as_is.size(); ++i) {
    text +=
        fmt::format("| {} | {} | {} | {} | {} | {} |\n",
                    i + 1 == as_is.size() ? "**all**" : as_is[i].group, as_is[i].rows,
                    as_is[i].too_large, cells(as_is[i]), by_rows[i].calibrated, cells(by_rows[i]));
  }
  std::vector<std::string> outside;
  for (const ValidatedPartialRun& row : none) {
    if (!row.is_inside_interval()) {
      outside.push_back(fmt::format("{} ({:+.1f} %)", row.id, 100.0 * row.best.error()));
    }
  }
  return text + (outside.empty() ? "\nNone is outside as it is.\n"
                                 : fmt::format("\nOutside as it is, with the error of the best: "
                                               "{}.\n",
                                               fmt::join(outside, ", ")));
}

}  // namespace ptdp
