// Costs every candidate with nested loops and no shortcut.
#include "planner/search/exhaustive_search.h"

#include <algorithm>
#include <tuple>

#include "cost_model/memory/memory.h"
#include "cost_model/partition/balance_equal_layers.h"

namespace ptdp {
namespace {

/// Adds the configuration to `feasible` if it can run, with balanced layers where they may differ.
void cost(const Scenario& scenario, const SearchOptions& options, ParallelConfig config,
          std::vector<Candidate>& feasible) {
  if (!is_candidate(scenario, config, options.gpus, options.space) ||
      find_batch_violation({scenario, config})) {
    return;
  }
  if (!config.layers_per_stage.empty() && options.space.layers_per_stage.empty()) {
    const auto balanced = balanced_layers({scenario, config});
    config.layers_per_stage = balanced.value_or(config.layers_per_stage);
  }
  if (!find_violation({scenario, config},
                      usable_memory(scenario.cluster.gpu, options.memory_headroom)) &&
      !options.leaves_out(config)) {
    const PlannedJob job(scenario, config);
    StepSimulations simulations;
    feasible.push_back({config, iteration_time(job, simulations), peak_memory(job)});
  }
}

}  // namespace

std::vector<Candidate> exhaustive_search(const Scenario& scenario, const SearchOptions& options) {
  const SearchSpace& space = options.space;
  std::vector<Candidate> feasible;
  for (const int tp : enumerate_tp(scenario, options.gpus, space)) {
    for (const Degrees& degrees : enumerate_degrees(scenario, options.gpus, space, tp)) {
      for (ParallelConfig& config :
           enumerate_variants(scenario, space, config_of_degrees(scenario, space, degrees))) {
        for (const Replicas& replicas : enumerate_replicas(scenario, options.gpus, space)) {
          for (const int size : replicas.micro_batch_sizes) {
            config.dp = replicas.dp;
            config.micro_batch_size = size;
            cost(scenario, options, config, feasible);
          }
        }
      }
    }
  }
  std::ranges::sort(feasible, [&](const Candidate& a, const Candidate& b) {
    const double score_a = score(a.time, a.config, options.objective);
    const double score_b = score(b.time, b.config, options.objective);
    return std::tie(score_a, a.config) < std::tie(score_b, b.config);
  });
  return feasible;
}

}  // namespace ptdp
