// The exact search for the best configuration.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/iteration/iteration.h"
#include "planner/constraints/constraint.h"
#include "planner/search/enumerate.h"
#include "planner/search/search_time_limit.h"

namespace ptdp {

enum class Objective {
  kTime,  ///< Shortest iteration.
  kCost   ///< Fewest GPU-seconds per iteration: idle GPUs are not paid for.
};

/// What is known of a search that goes on.
struct SearchProgress {
  double done = 0.0;            ///< Of the ways to split the model, the share looked at.
  std::optional<Seconds> best;  ///< Of the candidates whose time is exact.
  Seconds least_time;           ///< Nothing that is left takes less.
};

struct SearchOptions {
  std::int64_t gpus = 0;
  Pins pins;
  double memory_headroom = 0.0;  ///< Fraction of device memory to leave free.
  Objective objective = Objective::kTime;
  int num_best = 5;
  int num_threads = 1;      ///< Never changes the result.
  bool wants_front = true;  ///< Whether to find the Pareto front; its members cost simulations.
  SearchLimit limit;        ///< When to end with what was found so far.
  /// Called now and then, by one thread.
  std::function<void(const SearchProgress&)> on_progress;
};

/// A configuration that can run, with what iteration_cost predicts (not calibrated).
struct Candidate {
  ParallelConfig config;
  Seconds time;
  Bytes memory;  ///< Of the heaviest stage.
  /// Costs of its microbatches, which a plan of it is made with.
  std::shared_ptr<const MicrobatchCosts> costs = nullptr;
};

/// What the objective minimises, lower is better: seconds of an iteration, or GPU-seconds.
[[nodiscard]] double score(Seconds time, const ParallelConfig& config, Objective objective);
/// By how much worse than `best` a candidate is under the objective, as a fraction.
[[nodiscard]] double loss(const Candidate& candidate, const Candidate& best, Objective objective);

/// The configuration that comes nearest to fitting into memory.
struct MemoryShortfall {
  ParallelConfig config;
  Bytes missing;
};

/// What a search that was ended did not look at, or not to the end: it takes no less than this.
struct Unseen {
  Seconds least_time;        ///< Of an iteration; 0 where nothing is known.
  double least_score = 0.0;  ///< Under the objective.
};

struct SearchResult {
  /// Candidates counted once each, except that a split or a variant which fails for itself counts
  /// once and not for every dp and microbatch size: enumerated = feasible + all violations.
  std::int64_t enumerated = 0;
  std::int64_t feasible = 0;
  std::map<Constraint, std::int64_t> violations;
  std::vector<Candidate> best;  ///< By objective, then by configuration; at most num_best.
  /// Those that recompute all and would be as good as the best if they recomputed little: at most
  /// 128, the fastest of each family and microbatch size, fastest first.
  std::vector<ParallelConfig> recomputing;
  std::vector<Candidate> pareto;             ///< No other is both faster and smaller; by time.
  std::optional<MemoryShortfall> shortfall;  ///< Where memory was violated.
  /// Where the limit ended the search: counts, shortfall and front are of what was looked at.
  std::optional<Unseen> unseen;
  bool is_proven = true;  ///< Whether `best` is exact: nothing unseen can be among it.
};

/// Looks at every candidate that the pins allow. Exact, without sampling: all are counted, by
/// memory as find_violation has it, and all that fit are costed but those of which admissible
/// bounds say that they can be neither among the best nor on the front
/// (planner/search/family_search.h, planner/search/finalists.h). Where no split of the layers over
/// stages fits, or the first of equal stages does not, larger microbatches are counted with it
/// without being looked at. `check(scenario)` must accept the scenario.
///
/// Splits of the model that may be fastest are looked at first (planner/search/split_order.h), so
/// that a search which its limit ends has met what matters; it simulates one finalist at least.
[[nodiscard]] SearchResult search(const Scenario& scenario, const SearchOptions& options);

/// The same with the simulations of earlier searches at hand: those of the same scenario.
[[nodiscard]] SearchResult search(const Scenario& scenario, const SearchOptions& options,
                                  IterationTimes& times);

}  // namespace ptdp
