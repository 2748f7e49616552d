// Plans that recompute single modules, or some layers only: derived from those of the search, which
// would have to look at every set of modules and number of layers otherwise.
#pragma once

#include "planner/search.h"

namespace ptdp {

/// Adds to `found.best` what recomputes less than the search's kinds of recomputation and still
/// fits. For each configuration among the best and on the Pareto front that does not fit without
/// recomputation:
///
///   every set of modules that the stack runs and the model has, but the one that was searched
///   for each method of the stack the fewest layers that fit
///
/// and of these the best under the objective, where it beats the same configuration as it was
/// searched. Sorted and cut to num_best as before; nothing else of `found` changes. Not exact:
/// degrees that only such recomputation would make the best are not found. Does nothing where
/// recomputation is pinned.
void add_derived_plans(const Scenario& scenario, const SearchOptions& options, SearchResult& found);

}  // namespace ptdp
