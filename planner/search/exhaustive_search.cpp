// Costs every candidate with nested loops and no shortcut.
#include "planner/search/exhaustive_search.h"

#include <algorithm>
#include <tuple>

#include "cost_model/memory/memory.h"
#include "cost_model/partition/spread.h"

namespace ptdp {
namespace {

/// Adds the configuration to `feasible` if it can run, with balanced layers where they may differ.
void cost(const Scenario& scenario, const SearchOptions& options, ParallelConfig config,
          std::vector<Candidate>& feasible) {
  if (!is_candidate(scenario, config, options.gpus, options.pins) ||
      find_batch_violation({scenario, config})) {
    return;
  }
  if (!config.layers_per_stage.empty() && options.pins.layers_per_stage.empty()) {
    const auto balanced = balanced_layers({scenario, config});
    config.layers_per_stage = balanced.value_or(config.layers_per_stage);
  }
  if (!find_violation({scenario, config},
                      usable_memory(scenario.cluster.gpu, options.memory_headroom))) {
    const PlannedJob job(scenario, config);
    StepSimulations simulations;
    feasible.push_back({config, iteration_time(job, simulations), peak_memory(job)});
  }
}

}  // namespace

std::vector<Candidate> exhaustive_search(const Scenario& scenario, const SearchOptions& options) {
  const Pins& pins = options.pins;
  std::vector<Candidate> feasible;
  for (const int tp : enumerate_tp(scenario, options.gpus, pins)) {
    for (const ModelSplit& split : enumerate_splits(scenario, options.gpus, pins, tp)) {
      for (ParallelConfig& config :
           enumerate_variants(scenario, pins, split_config(scenario, pins, split))) {
        for (const Replicas& replicas : enumerate_replicas(scenario, options.gpus, pins)) {
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
