// Lists candidates as a search does, and takes every so manieth.
#include "planner/search/candidate_sample.h"

#include <algorithm>
#include <limits>
#include <set>
#include <tuple>
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

/// Returns whether a candidate of a variant that can run can do so, too. Balances its layers where
/// they may differ.
bool can_run(const Scenario& scenario, const SearchOptions& options, ParallelConfig& config) {
  const Bytes usable = usable_memory(scenario.cluster.gpu, options.memory_headroom);
  const PlannedJob job(scenario, config);
  if (!is_candidate(scenario, config, options.gpus, options.space) || find_batch_violation(job) ||
      find_memory_violation(job, usable) || options.leaves_out(config)) {
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

/// Checks candidates in blocks, on several threads, and keeps those that can run.
class Sample {
 public:
  Sample(const Scenario& scenario, const SearchOptions& options)
      : scenario_(scenario), options_(options) {}

  void add(const ParallelConfig& candidate) {
    block_.push_back(candidate);
    if (block_.size() == kBlock) {
      check();
    }
  }

  [[nodiscard]] std::vector<ParallelConfig> take() && {
    check();
    return std::move(kept_);
  }

 private:
  static constexpr std::size_t kTask = 64;  // candidates: they take longer than starting a thread
  static constexpr std::size_t kBlock = 64 * kTask;

  void check() {
    std::vector<char> runs(block_.size());  // not bool: threads write beside one another
    run_tasks((block_.size() + kTask - 1) / kTask, options_.num_workers,
              [&](std::size_t, std::size_t task) {
                const std::size_t end = std::min((task + 1) * kTask, block_.size());
                for (std::size_t i = task * kTask; i < end; ++i) {
                  runs[i] = can_run(scenario_, options_, block_[i]) ? 1 : 0;
                }
              });
    for (std::size_t i = 0; i < block_.size(); ++i) {
      if (runs[i] != 0) {
        kept_.push_back(std::move(block_[i]));
      }
    }
    block_.clear();
  }

  const Scenario& scenario_;
  const SearchOptions& options_;
  std::vector<ParallelConfig> block_;
  std::vector<ParallelConfig> kept_;
};

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
    searched.to_beat = std::numeric_limits<double>::max();  // spares counting all candidates
    searched.limit = options.limit.of_work(kWorkOfSplit);
    searched.space.tp = IntegerRanges(degrees.tp);
    searched.space.pp = IntegerRanges(degrees.pp);
  }
  std::vector<SearchResult> found(searches.size());
  run_tasks(searches.size(), options.num_workers,
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
  std::vector<std::pair<int, int>> batches;  // dp and microbatch size
  for (const Replicas& entry : replicas) {
    for (const int micro_batch_size : entry.micro_batch_sizes) {
      batches.emplace_back(entry.dp, micro_batch_size);
    }
  }
  const std::int64_t stride = std::max<std::int64_t>(size.all / size.looked_at, 1);
  std::int64_t next = 0;  // how far the next candidate is behind the first one of a variant
  Sample sample(widened, options);
  for (const Degrees& degrees : possible_splits(widened, options, replicas)) {
    for (ParallelConfig& config : enumerate_variants(
             widened, options.space, config_of_degrees(widened, options.space, degrees))) {
      if (traits_of(config.schedule).is_searched) {
        continue;
      }
      const bool is_variant_run = !find_variant_violation({widened, config});
      for (; next < std::ssize(batches); next += stride) {
        std::tie(config.dp, config.micro_batch_size) = batches[static_cast<std::size_t>(next)];
        if (is_variant_run) {
          sample.add(config);
        }
      }
      next -= std::ssize(batches);
    }
  }
  std::vector<ParallelConfig> kept = std::move(sample).take();
  thin(kept, size.kept);
  return kept;
}

}  // namespace ptdp
