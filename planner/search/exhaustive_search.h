// What search() finds, by looking at everything: the specification of the fast search.
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// Costs every candidate that the pins allow and that fits, one by one, and returns all, the best
/// under the objective first. search() has the first `num_best` of them, and as many feasible.
/// Without derived plans; takes minutes where search() takes milliseconds.
[[nodiscard]] std::vector<Candidate> exhaustive_search(const Scenario& scenario,
                                                       const SearchOptions& options);

}  // namespace ptdp
