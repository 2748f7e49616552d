// One factor per cluster, stack and kind of model, out of measured runs, and what it says about the
// next prediction.
#pragma once

#include <span>
#include <vector>

#include "cost_model/measured/interval.h"
#include "cost_model/measured/run_point.h"
#include "cost_model/units.h"

namespace ptdp {

/// A run that was measured and predicted.
struct CalibrationRun {
  Seconds measured;
  Seconds predicted;
  RunPoint point = {};
};

/// What a prediction is multiplied with, and how far it can be off.
struct Calibration {
  Support support;                                          ///< The runs behind the factor.
  double factor = 1.0;                                      ///< 1 where there are none.
  RelativeInterval interval = kIntervalModel.uncalibrated;  ///< 90 %, around the product.

  [[nodiscard]] bool is_calibrated() const { return support.num_runs > 0; }
};

/// Fewest runs that a factor may rest on: the median of fewer moves with a single outlier.
inline constexpr int kFewestCalibrationRuns = 3;

/// The fit of one (cluster, stack): a factor, and where the runs lie that it rests on.
struct CalibrationFit {
  double factor = 1.0;
  double spread = 0.0;                ///< 90 % of the runs lie within exp(±spread) of the factor.
  std::vector<RunPoint> points = {};  ///< None: not calibrated; the factor is then 1.

  [[nodiscard]] bool is_calibrated() const { return !points.empty(); }
  [[nodiscard]] int num_runs() const { return static_cast<int>(points.size()); }
  /// For a prediction at `point`.
  [[nodiscard]] Calibration at(const RunPoint& point) const;
};

/// factor = median(measured/predicted), of logarithms. With fewer than kFewestCalibrationRuns runs:
/// not calibrated.
[[nodiscard]] CalibrationFit fit_calibration(std::span<const CalibrationRun> runs);

/// For each run the calibration by all the others; not calibrated where those are too few. The
/// others' spread is that about the median of all.
[[nodiscard]] std::vector<Calibration> leave_one_out(std::span<const CalibrationRun> runs);

/// Of relative errors (predicted/measured − 1): what is large, how often, and to which side.
struct ErrorSummary {
  int count = 0;
  double mean_absolute = 0.0;  ///< MAPE, as a fraction.
  double median_absolute = 0.0;
  double p90_absolute = 0.0;  ///< 90th percentile, interpolated.
  double max_absolute = 0.0;
  double bias = 0.0;  ///< Mean, signed.
};
[[nodiscard]] ErrorSummary summarize(std::span<const double> errors);

}  // namespace ptdp
