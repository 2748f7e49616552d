// The constants of the intervals out of measured runs, and what intervals made so are worth.
#pragma once

#include <string>
#include <vector>

#include "cost_model/measured/interval.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// Of every run: calibrated by the other runs of its scope (leave-one-out), by those of
/// other groups (leave-one-group-out), where at least three are left, and not calibrated.
struct IntervalResiduals {
  std::vector<Residual> calibrated;
  std::vector<Residual> uncalibrated;
};
[[nodiscard]] IntervalResiduals interval_residuals(const std::vector<CostedRun>& runs);

/// fit_interval_model() of the residuals: what kIntervalModel is for the published runs.
[[nodiscard]] IntervalModel fit_intervals(const std::vector<CostedRun>& runs);

/// Runs of a group inside the intervals of predictions that know nothing of the group: neither the
/// factor nor the constants of the interval rest on it.
struct HeldOutCoverage {
  std::string group;
  int num_runs = 0;
  int num_calibrated = 0;        ///< By other groups of their scope.
  double inside_interval = 0.0;  ///< Share of the runs.
  std::vector<double> calibrated_half_widths;
  std::vector<double> uncalibrated_half_widths;
};
[[nodiscard]] std::vector<HeldOutCoverage> held_out_coverage(const std::vector<CostedRun>& runs);

/// The groups together.
struct CoverageSummary {
  double inside_interval = 0.0;                ///< Mean over the groups.
  std::vector<double> calibrated_half_widths;  ///< Of all runs.
  std::vector<double> uncalibrated_half_widths;
};
[[nodiscard]] CoverageSummary summarize(const std::vector<HeldOutCoverage>& coverages);

}  // namespace ptdp
