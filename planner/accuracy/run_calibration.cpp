// Fits the factor for each run from other runs of its scope, or from published runs.
#include "planner/accuracy/run_calibration.h"

#include <set>
#include <utility>

#include "planner/accuracy/profile_cache.h"

namespace ptdp {
namespace {

/// Returns the runs at `indices` without those for which `is_left_out` is true.
template <class Predicate>
std::vector<CalibrationRun> calibration_runs(const std::vector<CostedRun>& runs,
                                             const std::vector<std::size_t>& indices,
                                             Predicate is_left_out) {
  std::vector<CalibrationRun> selected;
  selected.reserve(indices.size());
  for (const std::size_t i : indices) {
    if (!is_left_out(runs[i].run)) {
      selected.push_back(calibration_run(runs[i]));
    }
  }
  return selected;
}

/// Calibrates the runs at `indices`, which are all of one scope.
void calibrate_leaving_out(CalibrationKind kind, const std::vector<CostedRun>& runs,
                           const std::vector<std::size_t>& indices,
                           std::vector<Calibration>& calibrations) {
  const auto none = [](const MeasuredRun&) { return false; };
  if (kind == CalibrationKind::kLeaveOneOut) {
    const std::vector<Calibration> found = leave_one_out(calibration_runs(runs, indices, none));
    for (std::size_t i = 0; i < indices.size(); ++i) {
      calibrations[indices[i]] = found[i];
    }
    return;
  }
  std::set<std::string> groups;
  for (const std::size_t i : indices) {
    groups.insert(kind == CalibrationKind::kScale ? "" : runs[i].run.group);
  }
  for (const std::string& group : groups) {
    const CalibrationFit fit =
        kind == CalibrationKind::kScale
            ? fit_calibration(calibration_runs(runs, indices, none))
            : fit_calibration(calibration_runs(
                  runs, indices, [&](const MeasuredRun& run) { return run.group == group; }));
    for (const std::size_t i : indices) {
      if (kind == CalibrationKind::kScale || runs[i].run.group == group) {
        calibrations[i] = fit.at(run_point(runs[i].run.model, runs[i].run.config));
      }
    }
  }
}

std::vector<CostedRun> published_runs_on(const MeasuredRuns& published, const Scenario& scenario,
                                         ProfileCache& profiles) {
  std::map<std::pair<std::string, std::string>, bool> is_alike;
  MeasuredRuns selected;
  for (const MeasuredRun& run : published.runs) {
    if (has_experts(run.model) != has_experts(scenario.job.model)) {
      continue;
    }
    const auto [found, is_first] = is_alike.try_emplace({run.cluster, run.stack});
    if (is_first) {
      found->second = profiles.is_run_on(run, scenario);
    }
    if (found->second) {
      selected.runs.push_back(run);
    }
  }
  return cost_runs(selected).costed;
}

std::vector<Calibration> shipped_calibrations(const std::vector<CostedRun>& runs) {
  const MeasuredRuns published = read_published_runs();
  ProfileCache profiles;
  std::vector<Calibration> calibrations(runs.size());
  for (const auto& [scope, indices] : by_scope(runs)) {
    Scenario scenario = scenario_of(runs[indices.front()]);
    const std::vector<CostedRun> alike = published_runs_on(published, scenario, profiles);
    for (const std::size_t i : indices) {
      const MeasuredRun& run = runs[i].run;
      scenario.job.model = run.model;
      scenario.job.global_batch_size = run.global_batch_size;
      calibrations[i] = fit_leaving_out_job(alike, scenario, run.config.world_size())
                            .at(run_point(run.model, run.config));
    }
  }
  return calibrations;
}

}  // namespace

CalibrationRun calibration_run(const CostedRun& run) {
  return {.measured = run.run.iteration_time,
          .predicted = run.predicted,
          .point = run_point(run.run.model, run.run.config)};
}

CalibrationScope scope_of(const CostedRun& run) {
  return {.cluster = run.run.cluster,
          .stack = run.run.stack,
          .has_experts = has_experts(run.run.model)};
}

CalibrationScope scope_of(const Scenario& scenario) {
  return {.cluster = scenario.cluster.name,
          .stack = scenario.stack.name,
          .has_experts = has_experts(scenario.job.model)};
}

std::string text_of(const CalibrationScope& scope) {
  return scope.cluster + " + " + scope.stack + (scope.has_experts ? ", experts" : "");
}

std::map<CalibrationScope, std::vector<std::size_t>> by_scope(const std::vector<CostedRun>& runs) {
  std::map<CalibrationScope, std::vector<std::size_t>> indices;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    indices[scope_of(runs[i])].push_back(i);
  }
  return indices;
}

std::vector<Calibration> calibrations_of(const std::vector<CostedRun>& runs, CalibrationKind kind) {
  std::vector<Calibration> calibrations(runs.size());
  switch (kind) {
    case CalibrationKind::kNone:
      break;
    case CalibrationKind::kShipped:
      return shipped_calibrations(runs);
    case CalibrationKind::kLeaveOneOut:
    case CalibrationKind::kLeaveOneGroupOut:
    case CalibrationKind::kScale:
      for (const auto& [scope, indices] : by_scope(runs)) {
        calibrate_leaving_out(kind, runs, indices, calibrations);
      }
  }
  return calibrations;
}

std::vector<CostedRun> published_runs_on(const MeasuredRuns& published, const Scenario& scenario) {
  ProfileCache profiles;
  return published_runs_on(published, scenario, profiles);
}

CalibrationFit fit_leaving_out_job(const std::vector<CostedRun>& runs, const Scenario& scenario,
                                   std::int64_t gpus) {
  std::vector<CalibrationRun> others;
  others.reserve(runs.size());
  for (const CostedRun& run : runs) {
    if (!is_same_job(run.run, scenario, gpus)) {
      others.push_back(calibration_run(run));
    }
  }
  return fit_calibration(others);
}

CalibrationFit calibrate_by_published(const MeasuredRuns& published, const Scenario& scenario,
                                      std::int64_t gpus) {
  return fit_leaving_out_job(published_runs_on(published, scenario), scenario, gpus);
}

}  // namespace ptdp
