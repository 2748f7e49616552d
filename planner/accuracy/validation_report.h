// Predicted against measured, as tables and as JSON.
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

/// A row with its prediction under a calibration.
struct ValidatedRun {
  CostedRun costed;
  Calibration calibration;
  bool is_contradicted = false;  ///< Contradicts itself: contradictions.h.

  [[nodiscard]] Estimate<Seconds> predicted() const;
  /// predicted/measured − 1.
  [[nodiscard]] double error() const;
  [[nodiscard]] bool is_inside_interval() const;
};

/// A row that leaves fields out, with the predictions of its completions. Times are of the best
/// completion's batch; of another batch, or of another time that the row's rate means, they count
/// in proportion to the time measured.
struct ValidatedPartialRun {
  std::string id;
  std::string group;
  std::vector<std::string> unknown;
  std::int64_t tried = 0;
  int completions = 0;  ///< That count (PartialRun).
  bool fits = true;     ///< Whether any fits into memory by its model.
  ValidatedRun best;    ///< Predicted fastest per sequence: what a good engineer would have chosen.
  Seconds fastest;      ///< Least and largest prediction ...
  Seconds slowest;
  Seconds low;  ///< ... and the ends of all their intervals.
  Seconds high;

  [[nodiscard]] bool is_inside_interval() const;
  /// Of the interval, as a fraction of its middle.
  [[nodiscard]] double half_width() const;
};

/// The rows of one group that leave fields out, or all of them.
struct PartialGroup {
  std::string group;
  int rows = 0;
  int calibrated = 0;              ///< Whose best completion is.
  int too_large = 0;               ///< That do not fit by the model of memory.
  double inside_interval = 0.0;    ///< Share of the rows.
  double median_half_width = 0.0;  ///< As a fraction of the middle.
  double best_inside = 0.0;        ///< Share of those inside the interval of the best alone.
  double median_best_error = 0.0;  ///< Of the best's predicted/measured − 1, without sign.
};

/// Rows of one group, or all of them.
struct GroupErrors {
  std::string group;
  ErrorSummary errors;
  double inside_interval = 0.0;    ///< Share of the rows.
  double median_half_width = 0.0;  ///< Of the intervals, as a fraction of the prediction.
};

/// The factor of one scope, fitted to all its rows: in-sample by nature.
struct FittedFactor {
  CalibrationScope scope;
  CalibrationFit fit;
  int num_rows = 0;
};

struct ValidationReport {
  CalibrationKind calibration = CalibrationKind::kNone;
  std::vector<ValidatedRun> rows;
  std::vector<SkippedRun> skipped;
  std::vector<ValidatedPartialRun> partial;  ///< No part of groups, total, factors and ranking.
  std::vector<GroupErrors> groups;           ///< By name.
  GroupErrors total;
  std::vector<FittedFactor> factors;  ///< By name.
  std::vector<RankedSet> ranking;     ///< By rank_rows(), where asked for.
  MemoryReport memory;                ///< Whatever the calibration.
};

/// Under `calibration`, without a ranking.
[[nodiscard]] ValidationReport make_validation_report(const CostedRuns& runs,
                                                      CalibrationKind calibration);
/// The ranking of the report's rows under its calibration.
[[nodiscard]] std::vector<RankedSet> rank_rows(const ValidationReport& report);

[[nodiscard]] std::string to_table(const ValidationReport& report);
/// `ptdp.validation/1`, described in FORMATS.md.
[[nodiscard]] std::string to_json(const ValidationReport& report);
/// The report of `runs` in a format.
[[nodiscard]] std::string in_format(AnswerFormat format, const ValidationReport& report,
                                    const CostedRuns& runs);

}  // namespace ptdp
