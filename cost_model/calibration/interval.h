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

/// The constants of the intervals.
///
///   w = min(sqrt(near² + (per_distance·d)²)·sqrt(1 + 1/n), ln(high/low)/2),  interval = exp(±w)
///
/// where d = median distance to the n runs that the factor rests on (run_point.h), and low, high =
/// the interval of a prediction that is not calibrated. So it widens away from the runs behind it,
/// and a factor from afar says as little as none.
struct IntervalModel {
  double near = 0.0;          ///< Half-width beside runs like this one, in logarithms.
  double per_distance = 0.0;  ///< What a distance of 1 adds, in logarithms.
  RelativeInterval uncalibrated;

  [[nodiscard]] RelativeInterval calibrated(double distance, int num_runs) const;
  friend bool operator==(const IntervalModel&, const IntervalModel&) = default;
};

/// Fitted to profiles/published: `ptdp-calibrate --intervals` prints what it should be.
inline constexpr IntervalModel kIntervalModel = {
    .near = 0.10, .per_distance = 0.01, .uncalibrated = {0.94, 1.45}};

/// By how much a prediction that left its run out missed it.
struct Residual {
  std::string group;       ///< Of the run, and of how it was left out: each counts the same.
  double log_ratio = 0.0;  ///< ln(measured/predicted).
  double distance = 0.0;   ///< Median, to the runs behind the prediction; 0: not calibrated.
  int num_runs = 0;        ///< Behind the prediction; 0: not calibrated.
};

/// The constants that fit the residuals best, in steps of 0.01 (per_distance: 0.005, at least
/// 0.01).
///
/// Of the calibrated ones, near and per_distance have the least mean interval score, w +
/// max(0, |r| − w)/missed for a half-width w (Gneiting & Raftery, JASA 2007, eq. 43, halved), and
/// of those that tie the smallest. The interval of the others leaves out missed/2 on each side,
/// rounded outwards, 1 included. A group counts as one, however many rows it has, and 90 % are to
/// hold for one group more than the G given: missed = 1 − 0.9·(1 + 1/G), at least 0.02 (conformal
/// prediction: Vovk et al., Algorithmic Learning in a Random World, 2005).
[[nodiscard]] IntervalModel fit_interval_model(std::span<const Residual> calibrated,
                                               std::span<const Residual> uncalibrated);

}  // namespace ptdp
