// Which candidates have to be simulated, and no more.
#pragma once

#include <optional>

#include "cost_model/inputs/scenario.h"
#include "cost_model/stage/stage.h"
#include "planner/search/findings.h"

namespace ptdp {

/// Simulates those of the findings' bounded candidates that may be among the best, or on the Pareto
/// front where that is wanted, and keeps what comes out.
/// Exact: those left out are worse than num_best others, and another is both faster and smaller,
/// whatever their simulation would say. Equal findings give equal ones, whatever their order.
///
/// Best first: the candidate with the lowest bound is looked at next; a cheap bound gives way to
/// that of least_step_time, and this to the simulation, until no bound is below the last of the
/// best. `times` are those that are known already, of the same scenario, and later also those found
/// here. Ends with the options' limit, once a batch is simulated, and returns what is left then.
[[nodiscard]] std::optional<Unseen> simulate_finalists(const Scenario& scenario,
                                                       const SearchOptions& options,
                                                       Findings& findings, IterationTimes& times);

}  // namespace ptdp
