// Lists candidates as a search does, and takes every so manieth.
#include "planner/search/candidate_sample.h"

#include <algorithm>
#include <set>
#include <utility>

#include "cost_model/partition/balance_equal_layers.h"
#include "planner/search/degrees_order.h"
#include "planner/search/enumerate.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

constexpr Seconds kWorkOfSplit(0.05);  // one that takes more is left out

/// Returns the splits that no constraint on tp, pp and cp rules out, those that may be fastest
/// first.
std::vector<Degrees> possible_splits(const Scenario& scenario, const SearchOptions& options,
                                     const std::vector<Replicas>& replicas) {
  std::vector<Degrees> splits;
  for (const int tp : enumerate_tp(scenario, options.gpus, options.space)) {
    if (find_tp_violation(scenario, tp)) {
      continue;
    }
    std::ranges::copy_if(enumerate_degrees(scenario, options.gpus, options.space, tp),
                         std::back_inserter(splits), [&](const Degrees& degrees) {
                           const ParallelConfig config =
                               config_of_degrees(scenario, options.space, degrees);
                           return !find_split_violation({scenario, config});
                         });
  }
  order_degrees(splits, ComputeFloor(scenario, options.gpus, replicas));
  return splits;
}

/// Returns whether a candidate can run, its layers balanced where they may differ.
bool can_run(const Scenario& scenario, const SearchOptions& options, ParallelConfig& config) {
  const Bytes usable = usable_memory(scenario.cluster.gpu, options.memory_headroom);
  if (!is_candidate(scenario, config, options.gpus, options.space) ||
      find_violation({scenario, config}, usable) || options.leaves_out(config)) {
    return false;
  }
  if (config.layers_per_stage.empty() || !options.space.layers_per_stage.empty()) {
    return true;
  }
  auto balanced = balanced_layers({scenario, config});
  if (!balanced) {
    return true;
  }
  config.layers_per_stage = std::move(*balanced);
  return !find_violation({scenario, config}, usable);
}

/// Keeps `most` of the configurations, evenly apart.
void thin(std::vector<ParallelConfig>& configs, std::size_t most) {
  if (configs.size() <= most) {
    return;
  }
  for (std::size_t i = 0; i < most; ++i) {
    std::swap(configs[i], configs[i * configs.size() / most]);
  }
  configs.resize(most);
}

}  // namespace

BestOfSplits best_of_splits(const Scenario& scenario, const SearchOptions& options,
                            std::int64_t most) {
  const Scenario widened = as_searched(scenario, options.space);
  const std::vector<Replicas> replicas = enumerate_replicas(widened, options.gpus, options.space);
  BestOfSplits result;
  std::set<std::pair<int, int>> pairs;
  std::vector<SearchOptions> searches;
  for (const Degrees& degrees : possible_splits(widened, options, replicas)) {
    if (!pairs.insert({degrees.tp, degrees.pp}).second || std::ssize(searches) == most) {
      continue;
    }
    SearchOptions& searched = searches.emplace_back(options.for_best_alone());
    searched.on_progress = {};
    searched.num_threads = 1;
    searched.limit = options.limit.of_work(kWorkOfSplit);
    searched.space.tp = IntegerRanges(degrees.tp);
    searched.space.pp = IntegerRanges(degrees.pp);
  }
  std::vector<SearchResult> found(searches.size());
  run_tasks(searches.size(), workers_of_all_cores(),
            [&](std::size_t, std::size_t i) { found[i] = search(scenario, searches[i]); });
  result.num_splits = std::ssize(pairs);
  for (SearchResult& of_pair : found) {
    if (!of_pair.unseen) {
      ++result.num_searched;
      std::ranges::move(of_pair.best, std::back_inserter(result.best));
    }
  }
  std::ranges::sort(result.best, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.config) < std::tie(b.time, b.config);
  });
  return result;
}

std::vector<ParallelConfig> sample_candidates(const Scenario& scenario,
                                              const SearchOptions& options,
                                              const SampleSize& size) {
  const Scenario widened = as_searched(scenario, options.space);
  const std::vector<Replicas> replicas = enumerate_replicas(widened, options.gpus, options.space);
  const std::int64_t stride = std::max<std::int64_t>(size.all / size.looked_at, 1);
  std::int64_t number = 0;
  std::vector<ParallelConfig> sample;
  for (const Degrees& degrees : possible_splits(widened, options, replicas)) {
    for (ParallelConfig& config : enumerate_variants(
             widened, options.space, config_of_degrees(widened, options.space, degrees))) {
      if (traits_of(config.schedule).is_searched) {
        continue;
      }
      for (const Replicas& entry : replicas) {
        for (const int micro_batch_size : entry.micro_batch_sizes) {
          if (number++ % stride != 0) {
            continue;
          }
          ParallelConfig candidate = config;
          candidate.dp = entry.dp;
          candidate.micro_batch_size = micro_batch_size;
          if (can_run(widened, options, candidate)) {
            sample.push_back(std::move(candidate));
          }
        }
      }
    }
  }
  thin(sample, size.kept);
  return sample;
}

}  // namespace ptdp
