// How far a prediction can be off: 90 % intervals, and the one of a prediction without runs.
#pragma once

#include <span>
#include <string>

namespace ptdp {

/// An interval of factors on a predicted time.
struct RelativeInterval {
  double low = 1.0;
  double high = 1.0;

  [[nodiscard]] bool contains(double factor) const { return low <= factor && factor <= high; }
  [[nodiscard]] double half_width() const { return (high - low) / 2.0; }
  friend bool operator==(const RelativeInterval&, const RelativeInterval&) = default;
};

/// The interval of the cost model as it is, without any level: fitted to profiles/published by
/// `ptdp-calibrate --intervals`.
inline constexpr RelativeInterval kUncalibratedInterval = {0.92, 1.42};

/// How far a prediction missed a run.
struct Residual {
  std::string group;       ///< Group of the run. All groups weigh the same in a fit.
  double log_ratio = 0.0;  ///< ln(measured/predicted).
};

/// Returns the interval that leaves out 3.5 % of the residuals on each side, rounded outward to
/// 0.01 and with 1 included. Of a group that the fit has not seen, about a tenth then lies outside.
[[nodiscard]] RelativeInterval fit_uncalibrated_interval(std::span<const Residual> residuals);

/// Returns the 90 % interval exp(±w) of a value whose logarithm has this variance: w is the 95 %
/// quantile of Student's distribution with `degrees` degrees of freedom, times the deviation.
[[nodiscard]] RelativeInterval interval_of(double variance, double degrees);

}  // namespace ptdp
