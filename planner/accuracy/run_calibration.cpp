// Calibrates runs by others, and plans by published runs.
#include "planner/accuracy/run_calibration.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <utility>

#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/published_runs.h"

namespace ptdp {
namespace {

std::string job_name_of(const MeasuredRun& run) {
  return job_name(run.model, run.global_batch_size, run.config.world_size());
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

/// Returns the name under which the published runs have a profile; else its own name, marked so
/// that it is no published one.
template <class Profile>
std::string published_name(const Profile& profile, const std::set<std::string_view>& names,
                           Profile (*find_profile)(const std::string&)) {
  const auto is_alike = [&](std::string_view name) {
    return takes_as_long(find_profile(std::string(name)), profile);
  };
  if (names.contains(profile.name) && is_alike(profile.name)) {
    return profile.name;
  }
  const auto found = std::find_if(names.begin(), names.end(), is_alike);
  return found != names.end() ? std::string(*found) : profile.name + " (not published)";
}

std::vector<CalibrationRun> calibration_runs(const std::vector<CostedRun>& runs) {
  std::vector<CalibrationRun> all;
  all.reserve(runs.size());
  std::transform(runs.begin(), runs.end(), std::back_inserter(all), calibration_run);
  return all;
}

/// Returns what the shipped levels say of the time of a scenario, as shipped_prior() does; less
/// where its GPU was not measured.
std::optional<LevelPrior> time_prior(const Scenario& scenario,
                                     const std::set<CalibrationScope>& counted,
                                     bool is_own_cluster) {
  std::optional<LevelPrior> prior =
      shipped_prior(shipped_levels().time, scenario, counted, is_own_cluster);
  if (prior && scenario.cluster.gpu.is_assumed) {
    prior->mean = prior->mean.blurred(kAssumedGpuVariance);
  }
  return prior;
}

/// Returns the fits of a scenario's jobs by the published runs of other jobs on its cluster and
/// stack, and by the shipped levels.
JobFits published_fits(const PublishedRuns& published, const Scenario& scenario,
                       ProfileCache& profiles) {
  const std::vector<CostedRun> alike =
      published.costed(published_runs_on(published, scenario, profiles));
  std::set<CalibrationScope> counted;
  for (const CostedRun& run : alike) {
    counted.insert(scope_of(run));
  }
  return {time_prior(scenario, counted, false), calibration_runs(alike),
          JobFits::Runs::kOfOtherJobs};
}

/// Returns the fits of a scenario's jobs by a user's own runs and by the shipped levels, which know
/// nothing of this project's runtime.
JobFits own_fits(const std::vector<CalibrationRun>& runs, const Scenario& scenario) {
  return {time_prior(scenario, {}, true).value_or(LevelPrior()), runs};
}

std::string job_name_of(const Scenario& scenario, std::int64_t gpus) {
  return job_name(scenario.job.model, scenario.job.global_batch_size, gpus);
}

/// Returns the calibration of each run, in order, by `levels`.
template <class LevelsOfRuns>
std::vector<Calibration> calibrate_each(const std::vector<CostedRun>& runs, LevelsOfRuns levels) {
  std::vector<Calibration> calibrations;
  calibrations.reserve(runs.size());
  for (const CostedRun& run : runs) {
    calibrations.push_back(levels.calibration(run));
  }
  return calibrations;
}

}  // namespace

LevelPath path_of(const CostedRun& run, ProfileCache& profiles) {
  const ProgramKind program =
      run.scenario ? run.scenario->stack.program : profiles.program_of(run.run);
  return {.program = program,
          .stack = run.run.stack,
          .has_experts = has_experts(run.run.model),
          .cluster = run.run.cluster};
}

std::vector<MeasuredRun> published_runs_on(const PublishedRuns& published, const Scenario& scenario,
                                           ProfileCache& profiles) {
  std::vector<MeasuredRun> runs =
      published.in_places([&](const std::string& cluster, const std::string& stack) {
        return profiles.is_place_of(cluster, stack, scenario);
      });
  std::erase_if(runs, [&](const MeasuredRun& run) {
    return has_experts(run.model) != has_experts(scenario.job.model);
  });
  return runs;
}

std::optional<LevelPrior> shipped_prior(const LevelSet& levels, const Scenario& scenario,
                                        const std::set<CalibrationScope>& counted,
                                        bool is_own_cluster) {
  if (scenario.stack.memory_model == MemoryModel::kPtdp) {
    return std::nullopt;
  }
  std::vector<LevelScope> others;
  std::set<std::string_view> stacks;
  std::set<std::string_view> clusters;
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
      .program = scenario.stack.program,
      .stack = published_name(scenario.stack, stacks, find_stack),
      .has_experts = has_experts(scenario.job.model),
      .cluster = is_own_cluster ? "" : published_name(scenario.cluster, clusters, find_cluster)};
  return level_prior(levels.model, others, path);
}

CalibrationRun calibration_run(const CostedRun& run) {
  return {.measured = run.run.iteration_time,
          .predicted = run.predicted,
          .point = run_point(run.run.model, run.precision, run.run.config),
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
    levels[path_of(run, profiles)].push_back(level_run(calibration_run(run)));
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

JobFits::JobFits(const std::optional<LevelPrior>& prior, std::vector<CalibrationRun> runs,
                 Runs which, const LevelModel& model)
    : model_(model), prior_(prior), runs_(std::move(runs)), which_(which) {}

const CalibrationFit& JobFits::fit(const std::string& job) {
  const auto [found, is_new] = fits_.try_emplace(job);
  if (!is_new || !prior_) {
    return found->second;
  }
  if (which_ == Runs::kAll) {
    found->second = fit_calibration(model_, *prior_, runs_, job);
    return found->second;
  }
  std::vector<CalibrationRun> others;
  others.reserve(runs_.size());
  std::copy_if(runs_.begin(), runs_.end(), std::back_inserter(others),
               [&](const CalibrationRun& run) { return run.job != job; });
  found->second = fit_calibration(model_, *prior_, others, job);
  return found->second;
}

std::vector<Calibration> JobFits::leave_one_out() const {
  return ptdp::leave_one_out(model_, prior_.value_or(LevelPrior()), runs_);
}

RowLevels::RowLevels(const LevelModel& model, const std::vector<CostedRun>& rows,
                     const std::optional<std::string>& left_out)
    : model_(model), num_rows_(rows.size()) {
  std::map<LevelPath, std::vector<CalibrationRun>> runs;
  RunsByScope levels;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].run.group != left_out) {
      const LevelPath path = path_of(rows[i], profiles_);
      const CalibrationRun& run = runs[path].emplace_back(calibration_run(rows[i]));
      levels[path].push_back(level_run(run));
      places_[path].push_back(i);
    }
  }
  scopes_ = scopes_of(model_, levels);
  for (auto& [path, of_path] : runs) {
    by_path_.try_emplace(path, level_prior(model_, scopes_, path), std::move(of_path),
                         JobFits::Runs::kAll, model_);
  }
}

JobFits& RowLevels::fits_of(const CostedRun& run) {
  const LevelPath path = path_of(run, profiles_);
  const auto found = by_path_.find(path);
  return found != by_path_.end()
             ? found->second
             : by_path_
                   .try_emplace(path, level_prior(model_, scopes_, path),
                                std::vector<CalibrationRun>(), JobFits::Runs::kAll, model_)
                   .first->second;
}

const CalibrationFit& RowLevels::fit(const CostedRun& run) {
  return fits_of(run).fit(job_name_of(run.run));
}

const CalibrationFit& RowLevels::fit_other_job(const CostedRun& run) {
  return fits_of(run).fit("");
}

Calibration RowLevels::calibration(const CostedRun& run) {
  return fit(run).at(run_point(run.run.model, run.precision, run.run.config));
}

std::vector<Calibration> RowLevels::leave_one_out() {
  std::vector<Calibration> calibrations(num_rows_);
  for (const auto& [path, places] : places_) {
    std::vector<Calibration> found = by_path_.at(path).leave_one_out();
    for (std::size_t i = 0; i < places.size(); ++i) {
      calibrations[places[i]] = std::move(found[i]);
    }
  }
  return calibrations;
}

Calibration PublishedLevels::calibration(const CostedRun& run) {
  const CalibrationScope scope = scope_of(run);
  auto found = scopes_.find(scope);
  if (found == scopes_.end()) {
    found =
        scopes_.emplace(scope, published_fits(published_runs(), scenario_of(run), profiles_)).first;
  }
  return found->second.fit(job_name_of(run.run))
      .at(run_point(run.run.model, run.precision, run.run.config));
}

std::vector<Calibration> calibrations_of(const std::vector<CostedRun>& runs, CalibrationKind kind) {
  const LevelModel& model = shipped_levels().time.model;
  switch (kind) {
    case CalibrationKind::kNone:
      break;
    case CalibrationKind::kShipped:
      return calibrate_each(runs, PublishedLevels());
    case CalibrationKind::kLeaveOneOut:
      return RowLevels(model, runs, std::nullopt).leave_one_out();
    case CalibrationKind::kLeaveOneGroupOut:
      return leave_one_group_out(model, runs);
    case CalibrationKind::kScale:
      return calibrate_each(runs, RowLevels(model, runs, std::nullopt));
  }
  return std::vector<Calibration>(runs.size());
}

CalibrationFit calibrate_by_published(const PublishedRuns& published, const Scenario& scenario,
                                      std::int64_t gpus) {
  ProfileCache profiles;
  return published_fits(published, scenario, profiles).fit(job_name_of(scenario, gpus));
}

CalibrationFit calibrate_by_own(const std::vector<CalibrationRun>& runs, const Scenario& scenario,
                                std::int64_t gpus) {
  return own_fits(runs, scenario).fit(job_name_of(scenario, gpus));
}

std::vector<Calibration> own_calibrations(const std::vector<CalibrationRun>& runs,
                                          const Scenario& scenario, CalibrationKind kind) {
  JobFits fits = own_fits(runs, scenario);
  if (kind == CalibrationKind::kLeaveOneOut) {
    return fits.leave_one_out();
  }
  std::vector<Calibration> calibrations;
  calibrations.reserve(runs.size());
  for (const CalibrationRun& run : runs) {
    calibrations.push_back(fits.fit(run.job).at(run.point));
  }
  return calibrations;
}

}  // namespace ptdp
