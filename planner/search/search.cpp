// Searches all splits on several threads, and merges what they find.
#include "planner/search/search.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <tuple>
#include <utility>

#include "planner/search/best_and_front.h"
#include "planner/search/degrees_order.h"
#include "planner/search/family_search.h"
#include "planner/search/finalists.h"
#include "planner/search/parallel_tasks.h"

namespace ptdp {
namespace {

// Share of the time limit for looking at candidates; finalists have the rest.
constexpr double kShareOfCandidates = 0.75;

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

/// Lowers `value` to `other` if it is larger, atomically.
void lower(std::atomic<std::size_t>& value, std::size_t other) {
  std::size_t known = value;
  while (other < known && !value.compare_exchange_weak(known, other)) {
  }
}

/// Returns the splits that tp does not rule out, those that may be fastest first. The others are
/// counted in the tally, each once.
std::vector<Degrees> degrees_in_order(const Scenario& scenario, const SearchOptions& options,
                                      const ComputeFloor& floor, SearchResult& tally) {
  std::vector<Degrees> all;
  for (const int tp : enumerate_tp(scenario, options.gpus, options.space)) {
    const std::vector<Degrees> splits =
        enumerate_degrees(scenario, options.gpus, options.space, tp);
    const auto violation = find_tp_violation(scenario, tp);
    if (violation && !splits.empty()) {
      tally.enumerated += std::ssize(splits);
      tally.violations[*violation] += std::ssize(splits);
    } else {
      all.insert(all.end(), splits.begin(), splits.end());
    }
  }
  order_degrees(all, floor);
  return all;
}

void add_unseen(SearchResult& result, const Unseen& other) {
  if (!result.unseen) {
    result.unseen = other;
    return;
  }
  result.unseen->least_time = std::min(result.unseen->least_time, other.least_time);
  result.unseen->least_score = std::min(result.unseen->least_score, other.least_score);
}

/// Returns whether nothing unseen can be among the best. What is unseen must score worse, since
/// configurations decide between equal scores.
bool is_proven(const SearchResult& result, const SearchOptions& options) {
  if (!result.unseen) {
    return true;
  }
  const auto score_of = [&](const Candidate& candidate) {
    return score(candidate.time, candidate.config, options.objective);
  };
  return std::ssize(result.best) == options.num_best && !result.best.empty() &&
         result.unseen->least_score > std::max(score_of(result.best.back()),
                                               (1.0 + options.tie) * score_of(result.best.front()));
}

// Most bases for derived plans: deriving plans from one takes as long as some simulations.
constexpr std::size_t kMostRecomputing = 128;

/// Returns the configurations whose time bound may be among the best, fastest first, at most
/// kMostRecomputing.
std::vector<ParallelConfig> those_that_may_be_best(std::vector<Candidate> candidates,
                                                   const BestAndFront& best_and_front) {
  std::ranges::sort(candidates, [](const Candidate& a, const Candidate& b) {
    return std::tie(a.time, a.config) < std::tie(b.time, b.config);
  });
  std::vector<ParallelConfig> configs;
  for (Candidate& candidate : candidates) {
    if (configs.size() < kMostRecomputing &&
        best_and_front.may_be_best(candidate.config, candidate.time)) {
      configs.push_back(std::move(candidate.config));
    }
  }
  return configs;
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

SearchOptions SearchOptions::for_best_alone() const {
  SearchOptions options = *this;
  options.num_best = 1;
  options.tie = 0.0;
  options.wants_front = false;
  return options;
}

Scenario as_searched(const Scenario& scenario, const SearchSpace& space) {
  return space.ignores_stack_support ? with_every_schedule(scenario)
         : space.allow_stale_weights ? with_stale_weights(scenario)
                                     : scenario;
}

SearchResult search(const Scenario& scenario, const SearchOptions& options) {
  IterationTimes times;
  return search(scenario, options, times);
}

SearchResult search(const Scenario& scenario, const SearchOptions& options, IterationTimes& times) {
  const SearchSpace& space = options.space;
  const Scenario widened = as_searched(scenario, space);
  const std::vector<Replicas> replicas = enumerate_replicas(widened, options.gpus, space);
  const ComputeFloor floor(widened, options.gpus, replicas);
  SearchResult result;
  const std::vector<Degrees> splits = degrees_in_order(widened, options, floor, result);
  SearchOptions of_candidates = options;
  of_candidates.limit = options.limit.share(kShareOfCandidates);
  // What a worker finds does not depend on what it looked at before, only how fast it does: the
  // number of threads leaves no trace.
  std::vector<std::unique_ptr<FamilySearch>> workers(
      static_cast<std::size_t>(std::max(options.num_threads, 1)));
  std::atomic<std::size_t> first_unseen = splits.size();
  run_tasks(splits.size(), workers.size(), [&](std::size_t worker, std::size_t split) {
    if (split > first_unseen) {
      return;
    }
    if (workers[worker] == nullptr) {
      workers[worker] = std::make_unique<FamilySearch>(widened, of_candidates, replicas, floor);
    }
    FamilySearch& search = *workers[worker];
    if (worker == 0 && options.on_progress) {
      search.report_to([&, split] {
        options.on_progress(
            {.done = static_cast<double>(split) / static_cast<double>(splits.size()),
             .best = search.best_time(),
             .least_time = floor.of(splits[split])});
      });
    }
    if (!search.search_split(config_of_degrees(widened, space, splits[split]))) {
      lower(first_unseen, split);
    }
  });

  std::vector<Candidate> recomputing;
  BestAndFront best_and_front(options);
  for (const std::unique_ptr<FamilySearch>& worker : workers) {
    if (worker != nullptr) {
      merge(result, worker->tally());
      recomputing.insert(recomputing.end(), worker->recomputing().begin(),
                         worker->recomputing().end());
      best_and_front.merge(worker->take_best_and_front());
    }
  }
  if (first_unseen < splits.size()) {
    const Seconds least = floor.of(splits[first_unseen]);
    result.unseen = {.least_time = least,
                     .least_score = options.objective == Objective::kCost
                                        ? floor.gpu_seconds().value()
                                        : least.value()};
  }
  if (const auto left = simulate_finalists(widened, options, best_and_front, times)) {
    add_unseen(result, *left);
  }
  result.best = best_and_front.best();
  result.ties = best_and_front.ties();
  result.recomputing = those_that_may_be_best(std::move(recomputing), best_and_front);
  if (options.wants_front) {
    result.pareto = best_and_front.front();
  }
  result.is_proven = is_proven(result, options);
  return result;
}

}  // namespace ptdp
