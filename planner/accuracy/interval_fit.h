// Tests what prediction intervals are worth: groups of runs are held out of everything behind them.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "cost_model/measured/interval.h"
#include "cost_model/text/named_values.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// Fits the interval of predictions without any level: fit_uncalibrated_interval() of the runs'
/// residuals. For the published runs the result is kUncalibratedInterval.
[[nodiscard]] RelativeInterval fit_uncalibrated_interval(const std::vector<CostedRun>& runs);

/// The nearest runs that lie behind a prediction.
enum class NearestRuns {
  kScope,    ///< Runs of its cluster, stack and kind of model.
  kStack,    ///< Runs of its stack.
  kProgram,  ///< Runs of its kind of program.
  kAny       ///< Runs of other programs.
};
inline constexpr std::array kNearestRunsNames = {
    NamedValue<NearestRuns>{NearestRuns::kScope, "its cluster and stack"},
    NamedValue<NearestRuns>{NearestRuns::kStack, "its stack elsewhere"},
    NamedValue<NearestRuns>{NearestRuns::kProgram, "its kind of program"},
    NamedValue<NearestRuns>{NearestRuns::kAny, "other programs"}};

/// A run predicted by runs of other groups alone: neither the levels nor their constants rest on
/// its group. With fewer than kFewestScopes scopes the constants are the shipped ones.
struct HeldOutRun {
  std::string group;
  NearestRuns nearest = NearestRuns::kAny;
  double error = 0.0;       ///< predicted/measured − 1.
  double half_width = 0.0;  ///< Half-width of the interval, relative to the prediction.
  bool is_inside = false;   ///< Whether the measurement lies in the interval.
};
/// Predicts each run, in order, without its group.
[[nodiscard]] std::vector<HeldOutRun> hold_groups_out(const std::vector<CostedRun>& runs);

/// How well held-out runs were predicted.
struct HeldOutCoverage {
  int num_runs = 0;
  int num_groups = 0;
  double inside = 0.0;             ///< Share of the runs inside their interval, mean over groups.
  double median_half_width = 0.0;  ///< Median over the runs.
  double mean_absolute = 0.0;      ///< Mean absolute error, mean over groups.
  double bias = 0.0;               ///< Mean error, mean over groups.
};
/// Summarizes held-out runs; all numbers are 0 if there are none.
[[nodiscard]] HeldOutCoverage coverage_of(const std::vector<HeldOutRun>& runs);
/// Returns the held-out runs behind which the nearest runs are these.
[[nodiscard]] std::vector<HeldOutRun> with_nearest(const std::vector<HeldOutRun>& runs,
                                                   NearestRuns nearest);

}  // namespace ptdp
