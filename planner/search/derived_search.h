// Plans that recompute single modules, or some layers only: derived from those of the search, which
// would have to look at every set of modules and number of layers otherwise.
#pragma once

#include "planner/search/search.h"

namespace ptdp {

/// Adds to `found.best` what recomputes less than the search's kinds of recomputation and still
/// fits. For each configuration among the best, on the Pareto front and of `found.recomputing` that
/// does not fit without recomputation:
///
///   every set of modules that the stack runs and the model has, but the one that was searched
///   for each method of the stack the fewest layers that fit
///
/// and of these the best under the objective, where it beats the same configuration as it was
/// searched; of `found.recomputing` where it beats all. Sorted and cut to num_best as before. Not
/// exact: of a family and a microbatch size that recompute all, other replicas than the fastest are
/// not looked at. Does nothing where recomputation is pinned.
void add_derived_plans(const Scenario& scenario, const SearchOptions& options, SearchResult& found);

}  // namespace ptdp
