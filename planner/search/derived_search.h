// Plans that recompute single modules or some layers only, derived from the plans of a search. The
// search itself would have to look at every set of modules and every number of layers.
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// Returns the sets of modules whose selective recomputation saves memory in the model's layers and
/// is run by the stack. Sets with redundant members are left out, and the stack's usual set.
[[nodiscard]] std::vector<RecomputeModules> useful_module_sets(const Scenario& scenario);

/// Adds plans to `found.best` that recompute less than the search's kinds of recomputation and
/// still fit. Bases are the configurations among the best, on the Pareto front and in
/// `found.recomputing` that do not fit without recomputation. For each base it tries:
///
///   - every set of modules that the stack runs and the model has, but the one that was searched;
///   - for each method of the stack, the fewest layers that fit.
///
/// The best of these under the objective is added when it beats its base; for a base of
/// `found.recomputing`, when it beats all plans. `found.best` stays sorted and cut to num_best.
///
/// Not exact: of `found.recomputing` it sees only the fastest number of replicas of each family and
/// microbatch size. Does nothing when recomputation is pinned. When the options' limit is over,
/// sets `found.unseen` and clears `found.is_proven`.
void add_derived_plans(const Scenario& scenario, const SearchOptions& options, SearchResult& found);

/// Ends a search of plans: adds derived ones, then puts the one that is chosen among ties first
/// (choose_among_ties()).
void derive_and_choose(const Scenario& scenario, const SearchOptions& options, SearchResult& found);

}  // namespace ptdp
