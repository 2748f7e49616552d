// Computes residuals of calibrated runs, and the coverage of intervals without each group.
#include "planner/accuracy/interval_fit.h"

#include <cmath>
#include <set>

#include "planner/accuracy/run_calibration.h"

namespace ptdp {
namespace {

/// Returns ln(measured/predicted) of a run under a calibration.
double log_ratio(const CostedRun& run, const Calibration& calibration) {
  return std::log(run.run.iteration_time / (run.predicted * calibration.factor));
}

void add_calibrated(const std::vector<CostedRun>& runs, CalibrationKind kind,
                    std::vector<Residual>& residuals) {
  const std::vector<Calibration> calibrations = calibrations_of(runs, kind);
  const std::string name(name_of(kind, NamedValues<CalibrationKind>(kCalibrationKindNames)));
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (calibrations[i].is_calibrated()) {
      residuals.push_back({.group = name + ' ' + runs[i].run.group,
                           .log_ratio = log_ratio(runs[i], calibrations[i]),
                           .support = calibrations[i].support});
    }
  }
}

std::vector<CostedRun> without_group(const std::vector<CostedRun>& runs, const std::string& group) {
  std::vector<CostedRun> others;
  for (const CostedRun& run : runs) {
    if (run.run.group != group) {
      others.push_back(run);
    }
  }
  return others;
}

}  // namespace

IntervalResiduals interval_residuals(const std::vector<CostedRun>& runs) {
  IntervalResiduals residuals;
  add_calibrated(runs, CalibrationKind::kLeaveOneOut, residuals.calibrated);
  add_calibrated(runs, CalibrationKind::kLeaveOneGroupOut, residuals.calibrated);
  for (const CostedRun& run : runs) {
    residuals.uncalibrated.push_back({.group = run.run.group, .log_ratio = log_ratio(run, {})});
  }
  return residuals;
}

IntervalModel fit_intervals(const std::vector<CostedRun>& runs) {
  const IntervalResiduals residuals = interval_residuals(runs);
  return fit_interval_model(residuals.calibrated, residuals.uncalibrated);
}

std::vector<HeldOutCoverage> held_out_coverage(const std::vector<CostedRun>& runs) {
  const std::vector<Calibration> calibrations =
      calibrations_of(runs, CalibrationKind::kLeaveOneGroupOut);
  std::set<std::string> groups;
  for (const CostedRun& run : runs) {
    groups.insert(run.run.group);
  }
  std::vector<HeldOutCoverage> coverages;
  for (const std::string& group : groups) {
    const IntervalModel model = fit_intervals(without_group(runs, group));
    HeldOutCoverage coverage{.group = group};
    double inside = 0.0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (runs[i].run.group != group) {
        continue;
      }
      const Calibration& calibration = calibrations[i];
      const bool is_calibrated = calibration.is_calibrated();
      const RelativeInterval interval =
          is_calibrated ? model.calibrated(calibration.support) : model.uncalibrated;
      ++coverage.num_runs;
      coverage.num_calibrated += is_calibrated ? 1 : 0;
      inside += interval.contains(std::exp(log_ratio(runs[i], calibration))) ? 1.0 : 0.0;
      (is_calibrated ? coverage.calibrated_half_widths : coverage.uncalibrated_half_widths)
          .push_back(interval.half_width());
    }
    coverage.inside_interval = inside / coverage.num_runs;
    coverages.push_back(std::move(coverage));
  }
  return coverages;
}

CoverageSummary to_text(const std::vector<HeldOutCoverage>& coverages) {
  CoverageSummary summary;
  const auto append = [](std::vector<double>& all, const std::vector<double>& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  for (const HeldOutCoverage& coverage : coverages) {
    summary.inside_interval += coverage.inside_interval / static_cast<double>(coverages.size());
    append(summary.calibrated_half_widths, coverage.calibrated_half_widths);
    append(summary.uncalibrated_half_widths, coverage.uncalibrated_half_widths);
  }
  return summary;
}

}  // namespace ptdp
