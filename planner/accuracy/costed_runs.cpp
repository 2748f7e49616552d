// Reads measured runs and costs them with the uncalibrated cost model.
#include "planner/accuracy/costed_runs.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/iteration/flops.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/text/plural.h"
#include "planner/accuracy/profile_cache.h"
#include "planner/constraints/constraint.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {

Scenario scenario_of(const MeasuredRun& run) {
  return ProfileCache().scenario_of(run);
}

Scenario scenario_of(const CostedRun& run) {
  ProfileCache profiles;
  return scenario_of(run, profiles);
}

Scenario scenario_of(const CostedRun& run, ProfileCache& profiles) {
  return run.scenario ? *run.scenario : profiles.scenario_of(run.run);
}

std::optional<std::string> find_skip_reason(const MeasuredRun& run, ProfileCache& profiles) {
  try {
    const Scenario scenario = profiles.scenario_of(run);
    check(scenario);
    if (const auto violation = find_divisibility_violation({scenario, run.config})) {
      return std::string(text_of(*violation).description);
    }
    if (run.config.cp > 1 && !scenario.stack.can_run.context_parallel) {
      // The kind of context parallelism is not known.
      return "context parallelism is not run by the row's stack";
    }
    if (const Bytes capacity = scenario.cluster.gpu.memory; run.memory && *run.memory > capacity) {
      return fmt::format("memory_GB: expected at most the {:.4g} of the row's GPU, got {:.4g}",
                         capacity.value() / kGibi, run.memory->value() / kGibi);
    }
    return std::nullopt;
  } catch (const Error& error) {
    return error.what();
  }
}

namespace {

/// A run's prediction, or why there is none.
struct CostingOutcome {
  std::optional<CostedRun> costed;
  std::string reason;
};

CostingOutcome cost_run(const MeasuredRun& run, ProfileCache& profiles,
                        StepSimulations& simulations) {
  if (const auto reason = find_skip_reason(run, profiles)) {
    return {.costed = std::nullopt, .reason = *reason};
  }
  try {
    const Scenario scenario = profiles.scenario_of(run);
    return {.costed = CostedRun{.run = run,
                                .predicted = iteration_time({scenario, run.config}, simulations),
                                .precision = precision_name(scenario.stack)},
            .reason = ""};
  } catch (const Error& error) {
    return {.costed = std::nullopt, .reason = error.what()};
  }
}

/// Adds the outcome of `run` to `runs`.
void add(CostingOutcome outcome, const MeasuredRun& run, CostedRuns& runs) {
  if (outcome.costed) {
    runs.costed.push_back(std::move(*outcome.costed));
  } else {
    runs.skipped.push_back({run.id, run.group, std::move(outcome.reason)});
  }
}

}  // namespace

CostedRuns cost_runs(const MeasuredRuns& runs) {
  const std::size_t num_workers = workers_of_all_cores();
  ProfileCache found;  // once for all workers: a new thread would read the profiles again
  found.find_all(runs.runs);
  std::vector<ProfileCache> profiles(num_workers, found);
  std::vector<StepSimulations> simulations(num_workers);
  std::vector<CostingOutcome> outcomes(runs.runs.size());
  run_tasks(outcomes.size(), num_workers, [&](std::size_t worker, std::size_t i) {
    outcomes[i] = cost_run(runs.runs[i], profiles[worker], simulations[worker]);
  });
  CostedRuns result{.skipped = runs.skipped};
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    add(std::move(outcomes[i]), runs.runs[i], result);
  }
  return result;
}

CostedRuns cost_runs(const MeasuredRuns& runs, ProfileCache& profiles) {
  CostedRuns result{.skipped = runs.skipped};
  StepSimulations simulations;
  for (const MeasuredRun& run : runs.runs) {
    add(cost_run(run, profiles, simulations), run, result);
  }
  return result;
}

std::string first_skipped(const std::vector<SkippedRun>& skipped) {
  if (skipped.empty()) {
    return "there is none";
  }
  const std::string text = skipped.front().id + ": " + skipped.front().reason;
  return skipped.size() == 1 ? text : fmt::format("{} (and {} more)", text, skipped.size() - 1);
}

std::string tally_of_skipped(const std::vector<SkippedRun>& skipped) {
  std::map<std::string, int> by_reason;
  for (const SkippedRun& run : skipped) {
    ++by_reason[run.reason];
  }
  std::string text = "\nskipped: " + plural(std::ssize(skipped), "run") + "\n";
  for (const auto& [reason, count] : by_reason) {
    text += fmt::format("  {:>5}  {}\n", count, reason);
  }
  return text;
}

Seconds gpu_time_per_sequence(Seconds iteration, const MeasuredRun& run) {
  return iteration * static_cast<double>(run.config.world_size()) /
         static_cast<double>(run.global_batch_size);
}

double tflops_per_gpu(const MeasuredRun& run, Seconds time) {
  return hardware_flops(run.model, run.global_batch_size, run.config).value() / time.value() /
         static_cast<double>(run.config.world_size()) / kTera;
}

MeasuredRuns read_runs(const std::vector<std::filesystem::path>& files) {
  MeasuredRuns all;
  RowModels models;
  for (const std::filesystem::path& file : files) {
    all.append(read_measured_runs(CsvTable::from_file(file), models));
  }
  return all;
}

bool is_run_on(const MeasuredRun& run, const Scenario& scenario) {
  return ProfileCache().is_place_of(run.cluster, run.stack, scenario);
}

}  // namespace ptdp
