// Compares predicted with measured times, and reports the errors as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cost_model/measured/calibration.h"
#include "planner/accuracy/costed_runs.h"
#include "planner/accuracy/memory_validation.h"
#include "planner/accuracy/ranking.h"
#include "planner/accuracy/run_calibration.h"
#include "planner/answer_format.h"
#include "planner/plan/prediction.h"

namespace ptdp {

/// A measured row with its prediction under a calibration.
struct ValidatedRun {
  CostedRun costed;
  Calibration calibration;
  bool is_contradicted = false;  ///< Whether the row contradicts itself, see contradictions.h.

  /// Returns the calibrated prediction with its 90 % interval.
  [[nodiscard]] Estimate<Seconds> predicted() const;
  /// Returns predicted/measured − 1.
  [[nodiscard]] double error() const;
  /// Returns whether the measured time lies inside the interval of the prediction.
  [[nodiscard]] bool is_inside_interval() const;
};

/// A row that leaves fields out, with the predictions of its completions (PartialRun). Times are of
/// the best completion's batch. Times of another batch, or of another time that the row's rate
/// means, are scaled by the ratio of the measured times.
struct ValidatedPartialRun {
  std::string id;
  std::string group;
  std::vector<std::string> unknown;  ///< Columns that the row leaves out.
  std::int64_t tried = 0;            ///< Number of ways tried, those that cannot run included.
  std::int64_t num_ways = 0;         ///< Number of ways that run and fit (PartialRun).
  int num_near = 0;                  ///< Number of ways near the fastest (PartialRun).
  bool fits = true;                  ///< Whether any completion fits by the model of memory.
  /// The completion predicted to take the least GPU time for a sequence: what a good engineer would
  /// have chosen.
  ValidatedRun best;
  Seconds fastest;  ///< Least prediction of any completion.
  Seconds slowest;  ///< Largest prediction of any completion.
  Seconds low;      ///< Least lower end of the completions' intervals.
  Seconds high;     ///< Largest upper end of the completions' intervals.

  /// Returns whether the measured time lies between `low` and `high`.
  [[nodiscard]] bool is_inside_interval() const;
  /// Returns half of high − low, as a fraction of their middle.
  [[nodiscard]] double half_width() const;
};

/// The rows of one group that leave fields out, or all such rows.
struct PartialGroup {
  std::string group;
  int rows = 0;
  int calibrated = 0;              ///< Rows whose best completion is calibrated.
  int too_large = 0;               ///< Rows of which no completion fits by the model of memory.
  double inside_interval = 0.0;    ///< Share of rows measured between `low` and `high`.
  double median_half_width = 0.0;  ///< Median of half_width(), a fraction of the middle.
  double best_inside = 0.0;        ///< Share of rows inside the interval of the best alone.
  double median_best_error = 0.0;  ///< Median of |predicted/measured − 1| of the best.
};

/// The errors of the rows of one group, or of all rows.
struct GroupErrors {
  std::string group;
  ErrorSummary errors;
  double inside_interval = 0.0;    ///< Share of rows measured inside their interval.
  double median_half_width = 0.0;  ///< Median half-width of intervals, relative to the prediction.
};

/// The factor of one scope by all rows: in-sample by nature.
struct FittedFactor {
  CalibrationScope scope;
  double factor = 1.0;  ///< Factor for a job of no row.
  int num_rows = 0;
};

/// Measured rows beside their predictions under one calibration.
struct ValidationReport {
  CalibrationKind calibration = CalibrationKind::kNone;
  std::vector<ValidatedRun> rows;
  std::vector<SkippedRun> skipped;
  std::vector<ValidatedPartialRun> partial;  ///< Rows that count in no group, factor or ranking.
  std::vector<GroupErrors> groups;           ///< Errors by group, in the order of names.
  GroupErrors total;
  std::vector<FittedFactor> factors;  ///< Factors by scope, in the order of names.
  std::vector<RankedSet> ranking;     ///< Result of rank_rows(); empty unless asked for.
  MemoryReport memory;                ///< Memory, which no calibration changes.
};

/// Makes the report of `runs` under `calibration`, without a ranking.
[[nodiscard]] ValidationReport make_validation_report(const CostedRuns& runs,
                                                      CalibrationKind calibration);
/// Ranks the report's rows by job under its calibration.
[[nodiscard]] std::vector<RankedSet> rank_rows(const ValidationReport& report);

/// Returns the report as tables for people.
[[nodiscard]] std::string to_text(const ValidationReport& report);
/// Returns the report as `ptdp.validation/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const ValidationReport& report);
/// Returns the report of `runs` in a format. Markdown is the page of errors, which takes only
/// `runs` and makes its own reports.
[[nodiscard]] std::string in_format(AnswerFormat format, const ValidationReport& report,
                                    const CostedRuns& runs);

}  // namespace ptdp
