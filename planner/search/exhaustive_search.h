// A search that costs every candidate: the specification of what the fast search() finds.
#pragma once

#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// Costs every candidate that the pins allow and that fits, one by one, and returns all, the best
/// under the objective first. search() returns the first `num_best` of them and counts as many as
/// feasible. Derived plans are not among them. Takes minutes where search() takes milliseconds.
[[nodiscard]] std::vector<Candidate> exhaustive_search(const Scenario& scenario,
                                                       const SearchOptions& options);

}  // namespace ptdp
