// How far a prediction can be off: 90 % intervals out of the residuals of published runs.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ptdp {

/// An interval of factors on a predicted time.
struct RelativeInterval {
  double low = 1.0;
  double high = 1.0;

  [[nodiscard]] bool contains(double factor) const { return low <= factor && factor <= high; }
  [[nodiscard]] double half_width() const { return (high - low) / 2.0; }
  friend bool operator==(const RelativeInterval&, const RelativeInterval&) = default;
};

/// The runs that a calibration factor rests on, as seen from a prediction.
struct Support {
  int num_runs = 0;       ///< Number of runs; 0: not calibrated.
  double distance = 0.0;  ///< Distance from the prediction to the third nearest run (run_point.h).
  double spread = 0.0;    ///< 90 % of the runs lie within exp(±spread) of the factor.

  friend bool operator==(const Support&, const Support&) = default;
};

/// The constants of the 90 % intervals around predictions.
///
///   s² = (n·spread² + 10·near²)/(n + 10)
///   w = min(sqrt(s² + (per_distance·d)²)·sqrt(1 + 1/n), ln(high/low)/2),  interval = exp(±w)
///
/// for n runs with that spread at a distance d; low, high = the interval of a prediction that is
/// not calibrated. An interval is as wide as its runs scatter, if there are enough of them to tell.
/// It widens away from them: a factor from afar says as little as none.
struct IntervalModel {
  double near = 0.0;              ///< Half-width close to few runs, in logarithms.
  double per_distance = 0.0;      ///< Half-width that a distance of 1 adds, in logarithms.
  RelativeInterval uncalibrated;  ///< Interval of a prediction without a calibration factor.

  /// Returns the interval of a prediction with a calibration factor, around their product. There
  /// must be runs.
  [[nodiscard]] RelativeInterval calibrated(const Support& support) const;
  friend bool operator==(const IntervalModel&, const IntervalModel&) = default;
};

/// The constants in use, fitted to profiles/published: `ptdp-calibrate --intervals` prints what
/// they should be.
inline constexpr IntervalModel kIntervalModel = {
    .near = 0.13, .per_distance = 0.010, .uncalibrated = {0.94, 1.42}};

/// How far a prediction that left its run out missed that run.
struct Residual {
  /// Group of the run and of the way it was left out. All groups weigh the same in a fit.
  std::string group;
  double log_ratio = 0.0;  ///< ln(measured/predicted).
  Support support = {};
};

/// Returns the constants that fit the residuals best, in steps of 0.01 (per_distance: 0.005, at
/// least 0.01).
///
/// For calibrated residuals, near and per_distance have the least mean width that leaves at most 7
/// % outside. The interval for uncalibrated ones leaves out 3.5 % on each side, rounded outward and
/// with 1 included. A group counts as one, however many rows it has. Of a group that the fit has
/// not seen, about a tenth then lies outside.
[[nodiscard]] IntervalModel fit_interval_model(std::span<const Residual> calibrated,
                                               std::span<const Residual> uncalibrated);

}  // namespace ptdp
