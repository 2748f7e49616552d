// Makes the report of a validation: predictions, errors by group, factors, memory.
#include "planner/accuracy/validation_report.h"

#include <map>

#include "cost_model/measured/contradictions.h"
#include "cost_model/measured/quantile.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/partial_report.h"
#include "planner/accuracy/published_report.h"

namespace ptdp {
namespace {

GroupErrors errors_of(const std::string& name, const std::vector<const ValidatedRun*>& rows) {
  std::vector<double> errors;
  std::vector<double> half_widths;
  double inside = 0.0;
  for (const ValidatedRun* row : rows) {
    errors.push_back(row->error());
    half_widths.push_back(row->calibration.interval.half_width());
    inside += row->is_inside_interval() ? 1.0 : 0.0;
  }
  GroupErrors group{.group = name, .errors = summarized(errors)};
  if (!rows.empty()) {
    group.inside_interval = inside / static_cast<double>(rows.size());
    group.median_half_width = median(half_widths);
  }
  return group;
}

void summarize_groups(ValidationReport& report) {
  std::map<std::string, std::vector<const ValidatedRun*>> by_group;
  std::vector<const ValidatedRun*> all;
  for (const ValidatedRun& row : report.rows) {
    by_group[row.costed.run.group].push_back(&row);
    all.push_back(&row);
  }
  for (const auto& [name, rows] : by_group) {
    report.groups.push_back(errors_of(name, rows));
  }
  report.total = errors_of("all", all);
}

std::vector<FittedFactor> fit_factors(const std::vector<CostedRun>& runs) {
  RowLevels levels(shipped_levels().time.model, runs, std::nullopt);
  std::vector<FittedFactor> factors;
  for (const auto& [scope, indices] : by_scope(runs)) {
    factors.push_back({.scope = scope,
                       .factor = levels.fit_other_job(runs[indices.front()]).factor,
                       .num_rows = static_cast<int>(indices.size())});
  }
  return factors;
}

std::vector<bool> contradictions_of(const std::vector<CostedRun>& runs) {
  std::vector<MeasuredRun> measured;
  measured.reserve(runs.size());
  for (const CostedRun& run : runs) {
    measured.push_back(run.run);
  }
  return find_contradictions(measured);
}

}  // namespace

Estimate<Seconds> ValidatedRun::predicted() const {
  const Seconds time = costed.predicted * calibration.factor;
  return {.value = time,
          .low = time * calibration.interval.low,
          .high = time * calibration.interval.high};
}

double ValidatedRun::error() const {
  return predicted().value / costed.run.iteration_time - 1.0;
}

bool ValidatedRun::is_inside_interval() const {
  const Estimate<Seconds> estimate = predicted();
  const Seconds measured = costed.run.iteration_time;
  return estimate.low <= measured && measured <= estimate.high;
}

ValidationReport make_validation_report(const CostedRuns& runs, CalibrationKind calibration) {
  ValidationReport report{.calibration = calibration, .skipped = runs.skipped};
  const std::vector<Calibration> calibrations = calibrations_of(runs.costed, calibration);
  const std::vector<bool> contradicted = contradictions_of(runs.costed);
  report.rows.reserve(runs.costed.size());
  for (std::size_t i = 0; i < runs.costed.size(); ++i) {
    report.rows.push_back({.costed = runs.costed[i],
                           .calibration = calibrations[i],
                           .is_contradicted = contradicted[i]});
  }
  report.partial = validate_partial_runs(runs, calibration);
  summarize_groups(report);
  report.factors = fit_factors(runs.costed);
  report.memory = make_memory_report(runs.costed);
  return report;
}

std::vector<RankedSet> rank_rows(const ValidationReport& report) {
  std::vector<CostedRun> calibrated;
  std::vector<bool> contradicted;
  for (const ValidatedRun& row : report.rows) {
    calibrated.push_back({row.costed.run, row.predicted().value});
    contradicted.push_back(row.is_contradicted);
  }
  return rank_by_job(calibrated, contradicted);
}

std::string in_format(AnswerFormat format, const ValidationReport& report, const CostedRuns& runs) {
  switch (format) {
    case AnswerFormat::kJson:
      return to_json(report);
    case AnswerFormat::kMarkdown:
      return to_markdown(runs, read_notes());
    default:
      return to_text(report);
  }
}

}  // namespace ptdp
