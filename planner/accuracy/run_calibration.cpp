// Calibrates runs by others, and plans by published runs.
#include "planner/accuracy/run_calibration.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "planner/accuracy/levels_file.h"

namespace ptdp {
namespace {

std::string job_name_of(const MeasuredRun& run) {
  return job_name(run.model, run.global_batch_size, run.config.world_size());
}

LevelPath path_of(const CostedRun& run, ProfileCache& profiles) {
  const ProgramKind program =
      run.scenario ? run.scenario->stack.program : profiles.program_of(run.run);
  return {.program = std::string(name_of(program, NamedValues<ProgramKind>(kProgramKindNames))),
          .stack = run.run.stack,
          .has_experts = has_experts(run.run.model),
          .cluster = run.run.cluster};
}

/// Calibrates each run by the other rows.
std::vector<Calibration> leave_one_out(const LevelModel& model,
                                       const std::vector<CostedRun>& runs) {
  ProfileCache profiles;
  std::map<LevelPath, std::vector<std::size_t>> indices;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    indices[path_of(runs[i], profiles)].push_back(i);
  }
  const std::vector<LevelScope> scopes = scopes_of(model, runs_by_path(runs));
  std::vector<Calibration> calibrations(runs.size());
  for (const auto& [path, of_path] : indices) {
    std::vector<CalibrationRun> selected;
    selected.reserve(of_path.size());
    for (const std::size_t i : of_path) {
      selected.push_back(calibration_run(runs[i]));
    }
    std::vector<Calibration> found =
        leave_one_out(model, level_prior(model, scopes, path), selected);
    for (std::size_t i = 0; i < of_path.size(); ++i) {
      calibrations[of_path[i]] = std::move(found[i]);
    }
  }
  return calibrations;
}

/// Calibrates each run by the rows of other groups.
std::vector<Calibration> leave_one_group_out(const LevelModel& model,
                                             const std::vector<CostedRun>& runs) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    groups[runs[i].run.group].push_back(i);
  }
  std::vector<Calibration> calibrations(runs.size());
  for (const auto& [group, indices] : groups) {
    RowLevels others(model, runs, group);
    for (const std::size_t i : indices) {
      calibrations[i] = others.calibration(runs[i]);
    }
  }
  return calibrations;
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

/// Returns the name under which the published runs have a profile; else its own name, marked so
/// that it is no published one.
template <class Profile>
std::string published_name(const Profile& profile, const std::set<std::string>& names,
                           Profile (*find_profile)(const std::string&)) {
  const auto is_alike = [&](const std::string& name) {
    return takes_as_long(find_profile(name), profile);
  };
  if (names.contains(profile.name) && is_alike(profile.name)) {
    return profile.name;
  }
  const auto found = std::find_if(names.begin(), names.end(), is_alike);
  return found != names.end() ? *found : profile.name + " (not published)";
}

/// Returns what the shipped levels say of a scenario, without the scopes of the published runs that
/// are counted one by one, `own`; nullopt for this project's runtime, which no level knows. If
/// `is_own_cluster`, its cluster is another one than any of them, whatever its profile.
std::optional<LevelPrior> shipped_prior(const Scenario& scenario, const std::vector<CostedRun>& own,
                                        bool is_own_cluster) {
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    return std::nullopt;
  }
  std::set<CalibrationScope> counted;
  for (const CostedRun& run : own) {
    counted.insert(scope_of(run));
  }
  const Levels& levels = shipped_levels();
  std::vector<LevelScope> others;
  std::set<std::string> stacks;
  std::set<std::string> clusters;
  for (const LevelScope& scope : levels.scopes) {
    stacks.insert(scope.path.stack);
    clusters.insert(scope.path.cluster);
    if (!counted.contains({.cluster = scope.path.cluster,
                           .stack = scope.path.stack,
                           .has_experts = scope.path.has_experts})) {
      others.push_back(scope);
    }
  }
  const LevelPath path{
      .program =
          std::string(name_of(scenario.stack.program, NamedValues<ProgramKind>(kProgramKindNames))),
      .stack = published_name(scenario.stack, stacks, find_stack),
      .has_experts = has_experts(scenario.job.model),
      .cluster = is_own_cluster ? "" : published_name(scenario.cluster, clusters, find_cluster)};
  return level_prior(levels.model, others, path);
}

CalibrationFit fit_leaving_out_job(const std::vector<CalibrationRun>& runs,
                                   const std::optional<LevelPrior>& prior, const std::string& job) {
  if (!prior) {
    return {};
  }
  std::vector<CalibrationRun> others;
  others.reserve(runs.size());
  std::copy_if(runs.begin(), runs.end(), std::back_inserter(others),
               [&](const CalibrationRun& run) { return run.job != job; });
  return fit_calibration(shipped_levels().model, *prior, others, job);
}

std::vector<CalibrationRun> calibration_runs(const std::vector<CostedRun>& runs) {
  std::vector<CalibrationRun> all;
  all.reserve(runs.size());
  std::transform(runs.begin(), runs.end(), std::back_inserter(all), calibration_run);
  return all;
}

}  // namespace

CalibrationRun calibration_run(const CostedRun& run) {
  return {.measured = run.run.iteration_time,
          .predicted = run.predicted,
          .point = run_point(run.run.model, run.run.config),
          .job = job_name_of(run.run)};
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

RunsByScope runs_by_path(const std::vector<CostedRun>& runs) {
  ProfileCache profiles;
  RunsByScope levels;
  for (const CostedRun& run : runs) {
    const CalibrationRun calibration = calibration_run(run);
    levels[path_of(run, profiles)].push_back(level_runs({&calibration, 1}).front());
  }
  return levels;
}

std::vector<LevelScope> scopes_of(const LevelModel& model, const RunsByScope& runs) {
  std::vector<LevelScope> scopes;
  scopes.reserve(runs.size());
  for (const auto& [path, of_path] : runs) {
    scopes.push_back({.path = path,
                      .num_runs = static_cast<int>(of_path.size()),
                      .mean = ScopeSums(model, of_path).scope_mean()});
  }
  return scopes;
}

RowLevels::RowLevels(const LevelModel& model, const std::vector<CostedRun>& rows,
                     const std::optional<std::string>& left_out)
    : model_(model) {
  RunsByScope levels;
  for (const CostedRun& run : rows) {
    if (run.run.group != left_out) {
      by_path_[path_of(run, profiles_)].rows.push_back(calibration_run(run));
    }
  }
  for (const auto& [path, scope] : by_path_) {
    levels.emplace(path, level_runs(scope.rows));
  }
  scopes_ = scopes_of(model_, levels);
  for (auto& [path, scope] : by_path_) {
    scope.prior = level_prior(model_, scopes_, path);
  }
}

const CalibrationFit& RowLevels::fit(const CostedRun& run, const std::string& job) {
  const LevelPath path = path_of(run, profiles_);
  const auto [scope, is_new_scope] = by_path_.try_emplace(path);
  if (is_new_scope) {
    scope->second.prior = level_prior(model_, scopes_, path);
  }
  const auto [found, is_new_job] = scope->second.fits.try_emplace(job);
  if (is_new_job) {
    found->second = fit_calibration(model_, scope->second.prior, scope->second.rows, job);
  }
  return found->second;
}

CalibrationFit RowLevels::fit(const CostedRun& run) {
  return fit(run, job_name_of(run.run));
}

CalibrationFit RowLevels::fit_other_job(const CostedRun& run) {
  return fit(run, "");
}

Calibration RowLevels::calibration(const CostedRun& run) {
  return fit(run, job_name_of(run.run)).at(run_point(run.run.model, run.run.config));
}

PublishedLevels::PublishedLevels() : published_(read_published_runs()) {}

Calibration PublishedLevels::calibration(const CostedRun& run) {
  const auto [scope, is_new_scope] = scopes_.try_emplace(scope_of(run));
  Scope& known = scope->second;
  if (is_new_scope) {
    const Scenario scenario = scenario_of(run);
    const std::vector<CostedRun> alike = published_runs_on(published_, scenario, profiles_);
    known.runs = calibration_runs(alike);
    known.prior = shipped_prior(scenario, alike, false);
  }
  const auto [fit, is_new_job] = known.fits.try_emplace(job_name_of(run.run));
  if (is_new_job) {
    fit->second = fit_leaving_out_job(known.runs, known.prior, fit->first);
  }
  return fit->second.at(run_point(run.run.model, run.run.config));
}

std::vector<Calibration> calibrations_of(const std::vector<CostedRun>& runs, CalibrationKind kind) {
  const LevelModel& model = shipped_levels().model;
  std::vector<Calibration> calibrations;
  switch (kind) {
    case CalibrationKind::kNone:
      break;
    case CalibrationKind::kShipped: {
      PublishedLevels published;
      calibrations.reserve(runs.size());
      for (const CostedRun& run : runs) {
        calibrations.push_back(published.calibration(run));
      }
      return calibrations;
    }
    case CalibrationKind::kLeaveOneOut:
      return leave_one_out(model, runs);
    case CalibrationKind::kLeaveOneGroupOut:
      return leave_one_group_out(model, runs);
    case CalibrationKind::kScale: {
      RowLevels all(model, runs, std::nullopt);
      calibrations.reserve(runs.size());
      for (const CostedRun& run : runs) {
        calibrations.push_back(all.calibration(run));
      }
      return calibrations;
    }
  }
  return std::vector<Calibration>(runs.size());
}

std::vector<CostedRun> published_runs_on(const MeasuredRuns& published, const Scenario& scenario) {
  ProfileCache profiles;
  return published_runs_on(published, scenario, profiles);
}

CalibrationFit fit_leaving_out_job(const std::vector<CostedRun>& runs, const Scenario& scenario,
                                   std::int64_t gpus) {
  return fit_leaving_out_job(calibration_runs(runs), shipped_prior(scenario, runs, false),
                             job_name(scenario.job.model, scenario.job.global_batch_size, gpus));
}

CalibrationFit calibrate_by_published(const MeasuredRuns& published, const Scenario& scenario,
                                      std::int64_t gpus) {
  return fit_leaving_out_job(published_runs_on(published, scenario), scenario, gpus);
}

CalibrationFit calibrate_by_own(const std::vector<CalibrationRun>& runs, const Scenario& scenario,
                                std::int64_t gpus) {
  return fit_calibration(shipped_levels().model,
                         shipped_prior(scenario, {}, true).value_or(LevelPrior()), runs,
                         job_name(scenario.job.model, scenario.job.global_batch_size, gpus));
}

std::vector<Calibration> own_calibrations(const std::vector<CalibrationRun>& runs,
                                          const Scenario& scenario, CalibrationKind kind) {
  const LevelModel& model = shipped_levels().model;
  const LevelPrior prior = shipped_prior(scenario, {}, true).value_or(LevelPrior());
  if (kind == CalibrationKind::kLeaveOneOut) {
    return leave_one_out(model, prior, runs);
  }
  std::map<std::string, CalibrationFit> fits;
  std::vector<Calibration> calibrations;
  calibrations.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    const auto [found, is_new] = fits.try_emplace(run.job);
    if (is_new) {
      found->second = fit_calibration(model, prior, runs, run.job);
    }
    calibrations.push_back(found->second.at(run.point));
  }
  return calibrations;
}

}  // namespace ptdp
