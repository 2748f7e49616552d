// Fits the interval of bare predictions, and tests intervals on groups held out.
#include "planner/accuracy/interval_fit.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "cost_model/measured/level_fit.h"
#include "cost_model/measured/quantile.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/run_calibration.h"

namespace ptdp {
namespace {

NearestRuns nearest_of(const Support& support) {
  if (support.num_runs > 0) {
    return NearestRuns::kScope;
  }
  if (support.stack_runs > 0) {
    return NearestRuns::kStack;
  }
  return support.program_runs > 0 ? NearestRuns::kProgram : NearestRuns::kAny;
}

}  // namespace

RelativeInterval fit_uncalibrated_interval(const std::vector<CostedRun>& runs) {
  std::vector<Residual> residuals;
  residuals.reserve(runs.size());
  for (const CostedRun& run : runs) {
    residuals.push_back(
        {.group = run.run.group, .log_ratio = std::log(run.run.iteration_time / run.predicted)});
  }
  return fit_uncalibrated_interval(residuals);
}

std::vector<HeldOutRun> hold_groups_out(const std::vector<CostedRun>& runs) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    groups[runs[i].run.group].push_back(i);
  }
  std::vector<HeldOutRun> held_out(runs.size());
  for (const auto& [group, indices] : groups) {
    std::vector<CostedRun> others;
    std::copy_if(runs.begin(), runs.end(), std::back_inserter(others),
                 [&name = group](const CostedRun& run) { return run.run.group != name; });
    const LevelModel model = fit_levels(runs_by_path(others), shipped_levels().time.model);
    RowLevels levels(model, others, std::nullopt);
    for (const std::size_t i : indices) {
      const Calibration calibration = levels.calibration(runs[i]);
      const double ratio = runs[i].run.iteration_time / (runs[i].predicted * calibration.factor);
      held_out[i] = {.group = group,
                     .nearest = nearest_of(calibration.support),
                     .error = 1.0 / ratio - 1.0,
                     .half_width = calibration.interval.half_width(),
                     .is_inside = calibration.interval.contains(ratio)};
    }
  }
  return held_out;
}

HeldOutCoverage coverage_of(const std::vector<HeldOutRun>& runs) {
  struct Sums {
    double runs = 0.0;
    double inside = 0.0;
    double absolute = 0.0;
    double error = 0.0;
  };
  std::map<std::string, Sums> groups;
  std::vector<double> half_widths;
  for (const HeldOutRun& run : runs) {
    Sums& sums = groups[run.group];
    sums.runs += 1.0;
    sums.inside += run.is_inside ? 1.0 : 0.0;
    sums.absolute += std::abs(run.error);
    sums.error += run.error;
    half_widths.push_back(run.half_width);
  }
  HeldOutCoverage coverage{.num_runs = static_cast<int>(runs.size()),
                           .num_groups = static_cast<int>(groups.size())};
  for (const auto& [group, sums] : groups) {
    const double weight = sums.runs * static_cast<double>(groups.size());
    coverage.inside += sums.inside / weight;
    coverage.mean_absolute += sums.absolute / weight;
    coverage.bias += sums.error / weight;
  }
  coverage.median_half_width = half_widths.empty() ? 0.0 : median(std::move(half_widths));
  return coverage;
}

std::vector<HeldOutRun> with_nearest(const std::vector<HeldOutRun>& runs, NearestRuns nearest) {
  std::vector<HeldOutRun> some;
  for (const HeldOutRun& run : runs) {
    if (run.nearest == nearest) {
      some.push_back(run);
    }
  }
  return some;
}

}  // namespace ptdp
