// Fits the constants of prediction intervals to measured runs, and tests what intervals made so are
// worth.
#pragma once

#include <string>
#include <vector>

#include "cost_model/measured/interval.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// Residuals ln(measured/predicted) of runs.
struct IntervalResiduals {
  /// Residuals of each run calibrated by the other runs of its scope (leave-one-out), and by those
  /// of other groups (leave-one-group-out); only where at least three runs are left.
  std::vector<Residual> calibrated;
  std::vector<Residual> uncalibrated;  ///< Residuals of each run, not calibrated.
};
/// Computes the residuals of the runs.
[[nodiscard]] IntervalResiduals interval_residuals(const std::vector<CostedRun>& runs);

/// Fits the constants of intervals: fit_interval_model() of the residuals. For the published runs
/// the result is kIntervalModel.
[[nodiscard]] IntervalModel fit_intervals(const std::vector<CostedRun>& runs);

/// How many runs of a group lie inside intervals that know nothing of the group: neither the factor
/// nor the constants of the interval rest on it.
struct HeldOutCoverage {
  std::string group;
  int num_runs = 0;
  int num_calibrated = 0;                      ///< Runs calibrated by other groups of their scope.
  double inside_interval = 0.0;                ///< Share of the runs inside their interval.
  std::vector<double> calibrated_half_widths;  ///< Half-widths of calibrated runs' intervals.
  std::vector<double> uncalibrated_half_widths;  ///< Half-widths of the other runs' intervals.
};
/// Computes the coverage of each group, in the order of names.
[[nodiscard]] std::vector<HeldOutCoverage> held_out_coverage(const std::vector<CostedRun>& runs);

/// The coverage of all groups together.
struct CoverageSummary {
  double inside_interval = 0.0;                  ///< Share inside, mean over the groups.
  std::vector<double> calibrated_half_widths;    ///< Half-widths of calibrated runs' intervals.
  std::vector<double> uncalibrated_half_widths;  ///< Half-widths of the other runs' intervals.
};
/// Summarizes the coverage of groups.
[[nodiscard]] CoverageSummary to_text(const std::vector<HeldOutCoverage>& coverages);

}  // namespace ptdp
