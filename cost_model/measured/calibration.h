// Fits one factor per cluster, stack and kind of model to measured runs, and applies it to the next
// prediction.
#pragma once

#include <span>
#include <vector>

#include "cost_model/measured/interval.h"
#include "cost_model/measured/run_point.h"
#include "cost_model/units.h"

namespace ptdp {

/// A run whose iteration time was measured and predicted.
struct CalibrationRun {
  Seconds measured;
  Seconds predicted;
  CalibrationPoint point = {};
};

/// The factor by which a prediction is multiplied, and how far the product can be off.
struct Calibration {
  Support support;      ///< The runs behind the factor.
  double factor = 1.0;  ///< Factor on the predicted time; 1 without runs.
  /// 90 % interval around the product of prediction and factor.
  RelativeInterval interval = kIntervalModel.uncalibrated;

  /// Returns whether the factor rests on runs.
  [[nodiscard]] bool is_calibrated() const { return support.num_runs > 0; }
};

/// The fewest runs that a factor may rest on: the median of fewer moves with a single outlier.
inline constexpr int kFewestCalibrationRuns = 3;

/// The fit of a cluster, stack and kind of model: a factor, and where the runs lie that it rests
/// on.
struct CalibrationFit {
  double factor = 1.0;
  double spread = 0.0;  ///< 90 % of the runs lie within exp(±spread) of the factor.
  /// Points of the runs behind the factor; empty: not calibrated, and the factor is 1.
  std::vector<CalibrationPoint> points = {};

  [[nodiscard]] bool is_calibrated() const { return !points.empty(); }
  [[nodiscard]] int num_runs() const { return static_cast<int>(points.size()); }
  /// Returns the calibration of a prediction at `point`, whose interval widens with the distance to
  /// the runs.
  [[nodiscard]] Calibration at(const CalibrationPoint& point) const;
};

/// Fits factor = exp(median of ln(measured/predicted)) to runs. With fewer than
/// kFewestCalibrationRuns runs the result is not calibrated.
[[nodiscard]] CalibrationFit fit_calibration(std::span<const CalibrationRun> runs);

/// Returns for each run, in order, its calibration by all other runs; not calibrated if these are
/// fewer than kFewestCalibrationRuns. The others' spread is taken about the median of all runs.
[[nodiscard]] std::vector<Calibration> leave_one_out(std::span<const CalibrationRun> runs);

/// A summary of relative errors, predicted/measured − 1: how large they are, and to which side.
struct ErrorSummary {
  int count = 0;               ///< Number of errors summarized.
  double mean_absolute = 0.0;  ///< Mean absolute error (MAPE) as a fraction.
  double median_absolute = 0.0;
  double p90_absolute = 0.0;  ///< 90th percentile of absolute errors, interpolated.
  double max_absolute = 0.0;
  double bias = 0.0;  ///< Mean signed error.
};
/// Summarizes relative errors; all numbers are 0 if there are none.
[[nodiscard]] ErrorSummary to_text(std::span<const double> errors);

}  // namespace ptdp
