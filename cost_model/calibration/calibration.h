// One factor per cluster and stack, out of measured runs, and what it says about the next
// prediction.
#pragma once

#include <span>
#include <vector>

#include "cost_model/units.h"

namespace ptdp {

/// A run that was measured and predicted.
struct CalibrationRun {
  Seconds measured;
  Seconds predicted;
};

/// How far a prediction can be off, as factors on the predicted time.
struct RelativeInterval {
  double low = 1.0;
  double high = 1.0;
};

/// The fit of one (cluster, stack).
struct Calibration {
  int num_runs = 0;     ///< 0: not calibrated; the factor is then 1.
  double factor = 1.0;  ///< Median of measured/predicted, of logarithms.
  RelativeInterval interval;

  [[nodiscard]] bool is_calibrated() const { return num_runs > 0; }
};

/// Fewest runs that a factor may rest on: the median of fewer moves with a single outlier.
inline constexpr int kFewestCalibrationRuns = 3;

/// The 90 % interval of an uncalibrated prediction, around it: predictions from data sheets leave
/// out what software adds, so they are too fast far more often than too slow. See the README of
/// this folder for the runs behind it.
inline constexpr RelativeInterval kUncalibratedInterval = {0.95, 1.40};

/// factor = median(measured/predicted); the interval is that of a Student t at 90 % with the spread
/// of the leave-one-out residuals: exp(±t(n−1)·s·sqrt(1 + 1/n)). With fewer than
/// kFewestCalibrationRuns runs: not calibrated.
[[nodiscard]] Calibration calibrate(std::span<const CalibrationRun> runs);

/// The error of each run, predicted/measured − 1, under the factor of all the others; not
/// calibrated where the others are too few.
[[nodiscard]] std::vector<double> leave_one_out_errors(std::span<const CalibrationRun> runs);

/// Mean, median, worst and signed mean of relative errors.
struct ErrorSummary {
  int count = 0;
  double mean_absolute = 0.0;  ///< MAPE, as a fraction.
  double median_absolute = 0.0;
  double max_absolute = 0.0;
  double bias = 0.0;
};
[[nodiscard]] ErrorSummary summarize(std::span<const double> errors);

}  // namespace ptdp
