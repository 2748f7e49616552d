#include "planner/search.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <system_error>
#include <thread>
#include <utility>

#include "planner/family_search.h"
#include "planner/finalists.h"
#include "planner/findings.h"

namespace ptdp {
namespace {

void merge(SearchResult& total, const SearchResult& part) {
  total.enumerated += part.enumerated;
  total.feasible += part.feasible;
  for (const auto& [constraint, count] : part.violations) {
    total.violations[constraint] += count;
  }
  if (part.shortfall.has_value() &&
      (!total.shortfall.has_value() || is_smaller(*part.shortfall, *total.shortfall))) {
    total.shortfall = part.shortfall;
  }
}

/// Runs task(worker, 0) to task(worker, count − 1), each once, on up to `num_workers` threads, and
/// throws what the first of them to fail threw. A worker, 0 to num_workers − 1, is one thread.
void run_tasks(std::size_t count, std::size_t num_workers,
               const std::function<void(std::size_t, std::size_t)>& task) {
  std::atomic<std::size_t> next = 0;
  std::vector<std::exception_ptr> failures(count);
  const auto work = [&](std::size_t worker) {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        task(worker, i);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;  // joined at the end of the block
    try {
      for (std::size_t worker = 1; worker < std::min(num_workers, count); ++worker) {
        helpers.emplace_back(work, worker);
      }
    } catch (const std::system_error&) {
      // The system has no more threads to give; those that run do the work.
    }
    work(0);
  }
  for (const std::exception_ptr& failure : failures) {
    if (failure) {
      std::rethrow_exception(failure);
    }
  }
}

}  // namespace

double score(Seconds time, const ParallelConfig& config, Objective objective) {
  const bool counts_gpus = objective == Objective::kCost;
  return time.value() * (counts_gpus ? static_cast<double>(config.world_size()) : 1.0);
}

double loss(const Candidate& candidate, const Candidate& best, Objective objective) {
  return score(candidate.time, candidate.config, objective) /
             score(best.time, best.config, objective) -
         1.0;
}

SearchResult search(const Scenario& scenario, const SearchOptions& options) {
  IterationTimes times;
  return search(scenario, options, times);
}

SearchResult search(const Scenario& scenario, const SearchOptions& options, IterationTimes& times) {
  const Pins& pins = options.pins;
  const Scenario widened = pins.any_stack             ? with_every_schedule(scenario)
                           : pins.allow_stale_weights ? with_stale_weights(scenario)
                                                      : scenario;
  std::vector<ParallelConfig> splits;
  for (const int tp : enumerate_tp(widened, options.gpus, pins)) {
    std::ranges::move(enumerate_splits(widened, options.gpus, pins, tp),
                      std::back_inserter(splits));
  }
  const std::vector<Replicas> replicas = enumerate_replicas(widened, options.gpus, pins);
  // What a worker finds does not depend on what it looked at before, only how fast it does: the
  // number of threads leaves no trace.
  std::vector<std::unique_ptr<FamilySearch>> workers(
      static_cast<std::size_t>(std::max(options.num_threads, 1)));
  run_tasks(splits.size(), workers.size(), [&](std::size_t worker, std::size_t split) {
    if (workers[worker] == nullptr) {
      workers[worker] = std::make_unique<FamilySearch>(widened, options, replicas);
    }
    workers[worker]->search_split(splits[split]);
  });

  SearchResult result;
  Findings findings(options);
  for (const std::unique_ptr<FamilySearch>& worker : workers) {
    if (worker != nullptr) {
      merge(result, worker->tally());
      findings.merge(worker->take_findings());
    }
  }
  simulate_finalists(widened, options, findings, times);
  result.best = findings.best();
  if (options.wants_front) {
    result.pareto = findings.front();
  }
  return result;
}

}  // namespace ptdp
