// Finds the runs that say how much memory lies beyond the formulas.
#include "planner/accuracy/memory_levels.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "cost_model/measured/run_point.h"
#include "cost_model/memory/memory.h"
#include "planner/accuracy/levels_file.h"
#include "planner/accuracy/run_calibration.h"

namespace ptdp {
namespace {

MemoryRun computed_memory(const MeasuredRun& run, Scenario scenario) {
  scenario.stack.reserve_fraction = 0.0;
  return {.measured = *run.memory,
          .formulas = peak_memory({scenario, run.config}),
          .job = job_name(run.model, run.global_batch_size, run.config.world_size())};
}

/// The runs of one scope, with their places among all runs.
struct ScopeRuns {
  std::vector<MemoryRun> runs;
  std::vector<std::size_t> places;
};

/// Returns the runs that report memory, by path.
std::map<LevelPath, ScopeRuns> scopes_with_memory(const std::vector<CostedRun>& runs) {
  ProfileCache profiles;
  std::map<LevelPath, ScopeRuns> scopes;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (std::optional<MemoryRun> run = memory_run(runs[i], profiles)) {
      ScopeRuns& scope = scopes[path_of(runs[i], profiles)];
      scope.runs.push_back(*std::move(run));
      scope.places.push_back(i);
    }
  }
  return scopes;
}

RunsByScope levels_of(const std::map<LevelPath, ScopeRuns>& scopes) {
  RunsByScope levels;
  for (const auto& [path, scope] : scopes) {
    std::vector<LevelRun>& of_path = levels[path];
    of_path.reserve(scope.runs.size());
    for (const MemoryRun& run : scope.runs) {
      of_path.push_back(level_run(run));
    }
  }
  return levels;
}

/// Returns the scopes without the runs of a group.
std::map<LevelPath, ScopeRuns> without_group(const std::map<LevelPath, ScopeRuns>& scopes,
                                             const std::vector<CostedRun>& all,
                                             const std::string& group) {
  std::map<LevelPath, ScopeRuns> others;
  for (const auto& [path, scope] : scopes) {
    for (std::size_t i = 0; i < scope.runs.size(); ++i) {
      if (all[scope.places[i]].run.group != group) {
        ScopeRuns& other = others[path];
        other.runs.push_back(scope.runs[i]);
        other.places.push_back(scope.places[i]);
      }
    }
  }
  return others;
}

LevelPrior own_prior(const Scenario& scenario) {
  return shipped_prior(shipped_levels().memory, scenario, {}, true).value_or(LevelPrior());
}

}  // namespace

std::optional<MemoryRun> memory_run(const CostedRun& run, ProfileCache& profiles) {
  if (!run.run.memory) {
    return std::nullopt;
  }
  return computed_memory(run.run, run.scenario ? *run.scenario : profiles.scenario_of(run.run));
}

RunsByScope memory_runs_by_path(const std::vector<CostedRun>& runs) {
  return levels_of(scopes_with_memory(runs));
}

MemoryBelief published_memory(const MeasuredRuns& published, const Scenario& scenario,
                              std::int64_t gpus) {
  ProfileCache profiles;
  MeasuredRuns reported;
  std::copy_if(published.runs.begin(), published.runs.end(), std::back_inserter(reported.runs),
               [](const MeasuredRun& run) { return run.memory.has_value(); });
  const std::string job = job_name(scenario.job.model, scenario.job.global_batch_size, gpus);
  std::vector<MemoryRun> runs;
  std::set<CalibrationScope> counted;
  for (const MeasuredRun& run : published_runs_on(reported, scenario, profiles).runs) {
    if (find_skip_reason(run, profiles)) {
      continue;
    }
    counted.insert(scope_of(CostedRun{.run = run}));
    MemoryRun computed = computed_memory(run, profiles.scenario_of(run));
    if (computed.job != job) {
      runs.push_back(std::move(computed));
    }
  }
  const LevelSet& levels = shipped_levels().memory;
  const std::optional<LevelPrior> prior = shipped_prior(levels, scenario, counted, false);
  return prior ? believe_memory(levels.model, *prior, runs, job) : MemoryBelief();
}

Scenario with_reserve(const Scenario& scenario, const MemoryBelief& belief) {
  if (!belief.is_known() || scenario.stack.memory_model == MemoryModel::kPtdp) {
    return scenario;
  }
  constexpr double most_reserved = 0.9;  // what a stack's file may say
  Scenario reserved = scenario;
  reserved.stack.reserve_fraction = 1.0;
  const Bytes whole = reserved_memory(scenario.cluster.gpu, reserved.stack);
  reserved.stack.reserve_fraction =
      std::clamp(belief.quantile(kReservedProbability) / whole, 0.0, most_reserved);
  return reserved;
}

MemoryBelief own_memory(const std::vector<MemoryRun>& runs, const Scenario& scenario,
                        std::int64_t gpus) {
  return believe_memory(shipped_levels().memory.model, own_prior(scenario), runs,
                        job_name(scenario.job.model, scenario.job.global_batch_size, gpus));
}

std::vector<MemoryBelief> leave_own_memory_out(const std::vector<MemoryRun>& runs,
                                               const Scenario& scenario) {
  return leave_one_out(shipped_levels().memory.model, own_prior(scenario), runs);
}

std::vector<std::optional<MemoryBelief>> memory_leave_one_out(const std::vector<CostedRun>& runs) {
  const LevelModel& model = shipped_levels().memory.model;
  const std::map<LevelPath, ScopeRuns> by_path = scopes_with_memory(runs);
  const std::vector<LevelScope> scopes = scopes_of(model, levels_of(by_path));
  std::vector<std::optional<MemoryBelief>> beliefs(runs.size());
  for (const auto& [path, scope] : by_path) {
    const std::vector<MemoryBelief> found =
        leave_one_out(model, level_prior(model, scopes, path), scope.runs);
    for (std::size_t i = 0; i < found.size(); ++i) {
      beliefs[scope.places[i]] = found[i];
    }
  }
  return beliefs;
}

std::vector<std::optional<MemoryBelief>> memory_leave_group_out(
    const std::vector<CostedRun>& runs) {
  const std::map<LevelPath, ScopeRuns> all = scopes_with_memory(runs);
  std::set<std::string> groups;
  for (const CostedRun& run : runs) {
    if (run.run.memory) {
      groups.insert(run.run.group);
    }
  }
  std::vector<std::optional<MemoryBelief>> beliefs(runs.size());
  for (const std::string& group : groups) {
    const std::map<LevelPath, ScopeRuns> others = without_group(all, runs, group);
    const RunsByScope levels = levels_of(others);
    const LevelModel model = fit_memory_levels(levels, shipped_levels().memory.model);
    const std::vector<LevelScope> scopes = scopes_of(model, levels);
    for (const auto& [path, scope] : all) {
      const auto near = others.find(path);
      const LevelPrior prior = level_prior(model, scopes, path);
      for (std::size_t i = 0; i < scope.runs.size(); ++i) {
        if (runs[scope.places[i]].run.group == group) {
          beliefs[scope.places[i]] = believe_memory(
              model, prior, near == others.end() ? std::vector<MemoryRun>() : near->second.runs,
              scope.runs[i].job);
        }
      }
    }
  }
  return beliefs;
}

}  // namespace ptdp
