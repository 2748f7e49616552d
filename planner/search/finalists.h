// Simulation of the candidates that have to be simulated for an exact result, and no others.
#pragma once

#include <optional>

#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "planner/search/best_and_front.h"

namespace ptdp {

/// Simulates the bounded candidates of `best_and_front` that may be among the best, tie with them,
/// or be on the Pareto front when that is wanted. Keeps the results in `best_and_front`.
///
/// Exact: whatever its simulation would say, a candidate left out is worse than num_best others and
/// ties with none of the best, and another one is both faster and smaller. Equal candidates give
/// equal results, in any order.
///
/// Best first: the candidate with the lowest bound is looked at next. A cheap bound gives way to
/// that of least_step_time(), and this to the simulation, until no bound is below the last of the
/// best. `times` holds the times known already for the same scenario; times found here are added.
///
/// Ends when the options' limit is over, but simulates at least one batch. Returns what was left
/// then, or nullopt when nothing was left.
[[nodiscard]] std::optional<Unseen> simulate_finalists(const Scenario& scenario,
                                                       const SearchOptions& options,
                                                       BestAndFront& best_and_front,
                                                       IterationTimes& times);

}  // namespace ptdp
