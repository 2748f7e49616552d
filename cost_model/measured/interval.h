// How far a prediction can be off: 90 % intervals out of the residuals of published runs.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ptdp {

/// Factors on a predicted time.
struct RelativeInterval {
  double low = 1.0;
  double high = 1.0;

  [[nodiscard]] bool contains(double factor) const { return low <= factor && factor <= high; }
  [[nodiscard]] double half_width() const { return (high - low) / 2.0; }
  friend bool operator==(const RelativeInterval&, const RelativeInterval&) = default;
};

/// The runs that a factor rests on, as seen from a prediction.
struct Support {
  int num_runs = 0;       ///< 0: not calibrated.
  double distance = 0.0;  ///< To the third nearest of them (run_point.h).
  double spread = 0.0;    ///< 90 % of them lie within exp(±spread) of the factor.

  friend bool operator==(const Support&, const Support&) = default;
};

/// The constants of the intervals.
///
///   s² = (n·spread² + 10·near²)/(n + 10)
///   w = min(sqrt(s² + (per_distance·d)²)·sqrt(1 + 1/n), ln(high/low)/2),  interval = exp(±w)
///
/// for n runs at a distance d, where low, high = the interval of a prediction that is not
/// calibrated. So it is as wide as those runs scatter, as far as there are enough of them to tell,
/// widens away from them, and a factor from afar says as little as none.
struct IntervalModel {
  double near = 0.0;          ///< Half-width beside few runs, in logarithms.
  double per_distance = 0.0;  ///< What a distance of 1 adds, in logarithms.
  RelativeInterval uncalibrated;

  [[nodiscard]] RelativeInterval calibrated(const Support& support) const;
  friend bool operator==(const IntervalModel&, const IntervalModel&) = default;
};

/// Fitted to profiles/published: `ptdp-calibrate --intervals` prints what it should be.
inline constexpr IntervalModel kIntervalModel = {
    .near = 0.13, .per_distance = 0.010, .uncalibrated = {0.91, 1.40}};

/// By how much a prediction that left its run out missed it.
struct Residual {
  std::string group;       ///< Of the run, and of how it was left out: each counts the same.
  double log_ratio = 0.0;  ///< ln(measured/predicted).
  Support support = {};
};

/// The constants that fit the residuals best, in steps of 0.01 (per_distance: 0.005, at least
/// 0.01).
///
/// Of the calibrated ones, near and per_distance have the least mean width that leaves no more than
/// 7 % outside; the interval of the others leaves out 3.5 % on each side, rounded outwards, 1
/// included. A group counts as one, however many rows it has. Of a group that is not among those
/// fitted to, about a tenth then lies outside.
[[nodiscard]] IntervalModel fit_interval_model(std::span<const Residual> calibrated,
                                               std::span<const Residual> uncalibrated);

}  // namespace ptdp
