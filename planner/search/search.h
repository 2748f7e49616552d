// The exact search for the best configuration.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/iteration/iteration.h"
#include "planner/constraints/constraint.h"
#include "planner/search/enumerate.h"
#include "planner/search/parallel_tasks.h"
#include "planner/search/search_time_limit.h"

namespace ptdp {

/// What a search minimizes.
enum class Objective {
  kTime,  ///< The time of an iteration.
  kCost   ///< The GPU-seconds of an iteration: idle GPUs are not paid for.
};

/// What is known of a search that is under way.
struct SearchProgress {
  double done = 0.0;            ///< Share of the ways to split the model that is looked at, 0 to 1.
  std::optional<Seconds> best;  ///< Shortest exact time of an iteration so far.
  Seconds least_time;           ///< Lower bound of the time of everything that is left.
};

/// What to search, and how.
struct SearchOptions {
  std::int64_t gpus = 0;  ///< Number of GPUs that a configuration may use.
  SearchSpace space;
  double memory_headroom = 0.0;  ///< Fraction of device memory to leave free.
  Objective objective = Objective::kTime;
  int num_best = 5;     ///< Number of best configurations to return.
  double tie = 0.0;     ///< Loss up to which a configuration ties with the best, a fraction.
  int num_threads = 1;  ///< Number of threads; it never changes the result.
  /// Number of threads for what explains and draws the answer: searches and simulations, each on
  /// one thread. It never changes what they find.
  std::size_t num_workers = workers_of_all_cores();
  bool wants_front = true;  ///< Whether to find the Pareto front; its members cost simulations.
  /// Score below which alone a candidate is among the best or ties. A number spares the search what
  /// bounds show to score no less: candidates are then not all counted. Wants no front.
  double to_beat = std::numeric_limits<double>::infinity();
  SearchLimit limit;       ///< When to end with what was found so far.
  Seconds flip_work{2.0};  ///< Work that looking for flips of the answer may take (find_flips()).
  /// Returns whether a configuration that can run is left out all the same (kNotExportable).
  /// Several threads call it at once; may be empty.
  std::function<bool(const ParallelConfig&)> is_left_out;
  /// Function that one thread calls from time to time during a search; may be empty.
  std::function<void(const SearchProgress&)> on_progress;

  /// Returns whether is_left_out() is there and says so.
  [[nodiscard]] bool leaves_out(const ParallelConfig& config) const {
    return is_left_out && is_left_out(config);
  }
  /// Returns the options of a search for the best configuration alone: no tie and no front.
  [[nodiscard]] SearchOptions for_best_alone() const;
  /// Returns whether every candidate is counted, whatever its score.
  [[nodiscard]] bool counts_all() const { return std::isinf(to_beat); }
};

/// A configuration that can run, with its predicted time and memory.
struct Candidate {
  ParallelConfig config;
  Seconds time;  ///< Time of an iteration as iteration_cost() predicts it, not calibrated.
  Bytes memory;  ///< Memory of the heaviest stage.
  /// Costs of a microbatch, for making a plan of the configuration; may be null.
  std::shared_ptr<const MicrobatchCosts> costs = nullptr;
};

/// Returns what the objective minimizes: the seconds of an iteration, or its GPU-seconds.
[[nodiscard]] double score(Seconds time, const ParallelConfig& config, Objective objective);
/// Returns how much worse than `best` a candidate is under the objective, as a fraction.
[[nodiscard]] double loss(const Candidate& candidate, const Candidate& best, Objective objective);

/// The configuration that comes nearest to fitting into memory.
struct MemoryShortfall {
  ParallelConfig config;
  Bytes missing;  ///< Memory that the heaviest stage needs beyond the capacity.
};

/// Lower bounds of everything that a search ended by its limit did not look at to the end.
struct Unseen {
  Seconds least_time;        ///< Lower bound of the time of an iteration; 0 if unknown.
  double least_score = 0.0;  ///< Lower bound of the score under the objective; 0 if unknown.
};

/// What a search found and counted.
struct SearchResult {
  /// Number of candidates, enumerated = feasible + all violations. A split or a variant that fails
  /// by itself counts once, not for every dp and microbatch size. Not all under a `to_beat`.
  std::int64_t enumerated = 0;
  std::int64_t feasible = 0;                      ///< Number of candidates that can run.
  std::map<Constraint, std::int64_t> violations;  ///< Candidates by the first violated constraint.
  /// The best candidates, at most num_best, by objective, then by configuration; after
  /// choose_among_ties() the chosen one comes first.
  std::vector<Candidate> best;
  /// The candidates that lose at most SearchOptions::tie, the best first; empty where that is 0.
  std::vector<Candidate> ties;
  /// The candidate with the best score, where another one that ties is best.front(); else nullopt.
  std::optional<Candidate> fastest;
  /// Configurations that recompute all layers and might be as good as the best if they recomputed
  /// little. At most 128, the fastest of each family and microbatch size, fastest first.
  std::vector<ParallelConfig> recomputing;
  /// The Pareto front: candidates that no other beats in both time and memory, fastest first.
  std::vector<Candidate> pareto;
  /// The candidate nearest to fitting among those that violate memory; nullopt if there is none.
  std::optional<MemoryShortfall> shortfall;
  /// What was left when the limit ended the search; counts, shortfall and front are without it.
  std::optional<Unseen> unseen;
  /// Whether `best` and `ties` are exact: nothing unseen can be among them.
  bool is_proven = true;
};

/// Returns the scenario with a stack that runs every schedule which the pins allow.
[[nodiscard]] Scenario as_searched(const Scenario& scenario, const SearchSpace& space);

/// Finds the best configurations among all candidates that the pins allow. Exact, without sampling:
///
///   - every candidate is counted, by memory as find_violation() has it;
///   - every candidate that fits is costed, unless admissible bounds show that it is neither among
///     the best nor on the front (planner/search/family_search.h, planner/search/finalists.h);
///   - when no split of the layers fits, or the first of equal stages does not, larger microbatches
///     are counted as misfits without being looked at.
///
/// `check(scenario)` must accept the scenario. Splits of the model that may be fastest are looked
/// at first (planner/search/degrees_order.h), so that a search ended by its limit has met what
/// matters. Such a search still simulates at least one finalist.
[[nodiscard]] SearchResult search(const Scenario& scenario, const SearchOptions& options);

/// Searches as search(scenario, options) does. `times` holds the simulations of earlier searches of
/// the same scenario, which are not repeated; simulations of finalists are added.
[[nodiscard]] SearchResult search(const Scenario& scenario, const SearchOptions& options,
                                  IterationTimes& times);

}  // namespace ptdp
