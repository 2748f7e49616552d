// Predicted against measured, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cost_model/calibration/calibration.h"
#include "planner/prediction.h"
#include "planner/ranking.h"
#include "planner/run_calibration.h"
#include "planner/validation.h"

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

/// Rows of one group, or all of them.
struct GroupErrors {
  std::string group;
  ErrorSummary errors;
  double inside_interval = 0.0;    ///< Share of the rows.
  double median_half_width = 0.0;  ///< Of the intervals, as a fraction of the prediction.
};

/// The factor of one (cluster, stack), fitted to all its rows: in-sample by nature.
struct FittedFactor {
  ClusterAndStack pair;
  CalibrationFit fit;
  int num_rows = 0;
};

struct ValidationReport {
  CalibrationKind calibration = CalibrationKind::kNone;
  std::vector<ValidatedRun> rows;
  std::vector<SkippedRun> skipped;
  std::vector<GroupErrors> groups;  ///< By name.
  GroupErrors total;
  std::vector<FittedFactor> factors;  ///< By name.
  std::vector<RankedSet> ranking;     ///< By rank_rows(), where asked for.
};

/// Under `calibration`, without a ranking.
[[nodiscard]] ValidationReport make_validation_report(const CostedRuns& runs,
                                                      CalibrationKind calibration);
/// The ranking of the report's rows under its calibration.
[[nodiscard]] std::vector<RankedSet> rank_rows(const ValidationReport& report);

[[nodiscard]] std::string to_table(const ValidationReport& report);
/// `ptdp.validation/1`, described in planner/README.md.
[[nodiscard]] std::string to_json(const ValidationReport& report);

}  // namespace ptdp
