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

/// The rows of one scope, with their places among all rows.
struct ScopeRows {
  std::vector<MemoryRun> runs;
  std::vector<std::size_t> places;
};

/// Returns the rows that `is_counted` holds for, by path.
template <class IsCounted>
std::map<LevelPath, ScopeRows> rows_by_path(std::span<const MemoryRow> rows,
                                            const IsCounted& is_counted) {
  std::map<LevelPath, ScopeRows> scopes;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (is_counted(rows[i])) {
      ScopeRows& scope = scopes[rows[i].path];
      scope.runs.push_back(rows[i].memory);
      scope.places.push_back(i);
    }
  }
  return scopes;
}

std::map<LevelPath, ScopeRows> rows_by_path(std::span<const MemoryRow> rows) {
  return rows_by_path(rows, [](const MemoryRow&) { return true; });
}

RunsByScope levels_of(const std::map<LevelPath, ScopeRows>& scopes) {
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

/// Returns a belief that rests on runs, or else nullopt.
std::optional<MemoryBelief> if_known(const MemoryBelief& belief) {
  return belief.is_known() ? std::optional(belief) : std::nullopt;
}

/// Returns what other scopes say of one whose GPUs have this much memory.
LevelPrior on_card(LevelPrior prior, Bytes card) {
  prior.mean = prior.mean.scaled(std::min(1.0, card / kUsualCard));
  return prior;
}

/// Returns what the shipped levels say of the memory of a scenario, as shipped_prior() does.
std::optional<LevelPrior> memory_prior(const Scenario& scenario,
                                       const std::set<CalibrationScope>& counted,
                                       bool is_own_cluster) {
  const std::optional<LevelPrior> prior =
      shipped_prior(shipped_levels().memory, scenario, counted, is_own_cluster);
  return prior ? std::optional(on_card(*prior, scenario.cluster.gpu.memory)) : std::nullopt;
}

LevelPrior own_prior(const Scenario& scenario) {
  return memory_prior(scenario, {}, true).value_or(LevelPrior());
}

}  // namespace

std::optional<MemoryRun> memory_run(const CostedRun& run, ProfileCache& profiles) {
  if (!run.run.memory) {
    return std::nullopt;
  }
  return computed_memory(run.run, scenario_of(run, profiles));
}

std::vector<MemoryRow> memory_rows(const std::vector<CostedRun>& runs) {
  ProfileCache profiles;
  std::vector<MemoryRow> rows;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (!runs[i].run.memory) {
      continue;
    }
    Scenario scenario = scenario_of(runs[i], profiles);
    const Bytes card = scenario.cluster.gpu.memory;
    rows.push_back({.place = i,
                    .group = runs[i].run.group,
                    .path = path_of(runs[i], profiles),
                    .memory = computed_memory(runs[i].run, std::move(scenario)),
                    .card = card});
  }
  return rows;
}

RunsByScope memory_runs_by_path(std::span<const MemoryRow> rows) {
  return levels_of(rows_by_path(rows));
}

MemoryBelief published_memory(const PublishedRuns& published, const Scenario& scenario,
                              std::int64_t gpus) {
  ProfileCache profiles;
  const std::string job = job_name(scenario.job.model, scenario.job.global_batch_size, gpus);
  std::vector<MemoryRun> runs;
  std::set<CalibrationScope> counted;
  for (const MeasuredRun& run : published_runs_on(published, scenario, profiles)) {
    if (!run.memory || find_skip_reason(run, profiles)) {
      continue;
    }
    counted.insert(scope_of(CostedRun{.run = run}));
    MemoryRun computed = computed_memory(run, profiles.scenario_of(run));
    if (computed.job != job) {
      runs.push_back(std::move(computed));
    }
  }
  const std::optional<LevelPrior> prior = memory_prior(scenario, counted, false);
  return prior ? believe_memory(shipped_levels().memory.model, *prior, runs, job) : MemoryBelief();
}

ReservedScenario with_reserve(const Scenario& scenario, const MemoryBelief& belief,
                              double probability) {
  ReservedScenario reserved = {
      .scenario = scenario, .asked = probability, .support = belief.support};
  if (!belief.is_known() || scenario.stack.memory_model == MemoryModel::kPtdp) {
    return reserved;
  }
  constexpr double most_reserved = 0.9;  // what a stack's file may say
  double& fraction = reserved.scenario.stack.reserve_fraction;
  fraction = 1.0;
  const Bytes whole = reserved_memory(scenario.cluster.gpu, reserved.scenario.stack);
  const double asked = belief.quantile(probability) / whole;
  fraction = std::clamp(asked, 0.0, most_reserved);
  reserved.probability =
      fraction == asked ? probability : belief.probability_of_fitting(Bytes(0.0), whole * fraction);
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

std::vector<std::optional<MemoryBelief>> memory_leave_one_out(std::span<const MemoryRow> rows) {
  const LevelModel& model = shipped_levels().memory.model;
  const std::map<LevelPath, ScopeRows> by_path = rows_by_path(rows);
  const std::vector<LevelScope> scopes = scopes_of(model, levels_of(by_path));
  std::vector<std::optional<MemoryBelief>> beliefs(rows.size());
  for (const auto& [path, scope] : by_path) {
    const Bytes card = rows[scope.places.front()].card;  // that of the scope's cluster
    const std::vector<MemoryBelief> found =
        leave_one_out(model, on_card(level_prior(model, scopes, path), card), scope.runs);
    for (std::size_t i = 0; i < found.size(); ++i) {
      beliefs[scope.places[i]] = if_known(found[i]);
    }
  }
  return beliefs;
}

std::vector<std::optional<MemoryBelief>> memory_leave_group_out(std::span<const MemoryRow> rows) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    groups[rows[i].group].push_back(i);
  }
  std::vector<std::optional<MemoryBelief>> beliefs(rows.size());
  for (const auto& [group, places] : groups) {
    const std::map<LevelPath, ScopeRows> others =
        rows_by_path(rows, [&name = group](const MemoryRow& row) { return row.group != name; });
    const RunsByScope levels = levels_of(others);
    const LevelModel model = fit_memory_levels(levels, shipped_levels().memory.model);
    const std::vector<LevelScope> scopes = scopes_of(model, levels);
    for (const std::size_t place : places) {
      const MemoryRow& row = rows[place];
      const auto near = others.find(row.path);
      beliefs[place] = if_known(believe_memory(
          model, on_card(level_prior(model, scopes, row.path), row.card),
          near == others.end() ? std::vector<MemoryRun>() : near->second.runs, row.memory.job));
    }
  }
  return beliefs;
}

}  // namespace ptdp
