// Which candidates have to be simulated, and no more.
#pragma once

#include <vector>

#include "cost_model/analytic/stage.h"
#include "cost_model/spec/scenario.h"
#include "planner/search.h"

namespace ptdp {

/// Candidates whose time is known, `costed`, and the ones of `bounded` that may be among the
/// options' num_best, or on the Pareto front where that is wanted, simulated. The times of
/// `bounded` are lower bounds, of schedules outside the closed form. Exact: those left out are
/// worse than num_best others, and another is both faster and smaller, whatever their simulation
/// would say. The order of the result is arbitrary, but equal arguments give equal results.
///
/// Best first: the candidate with the lowest bound is looked at next; a cheap bound gives way to
/// that of least_waits, and this to the simulation, until no bound is below the last of the best.
/// `simulations` are those that are known already, of the same scenario.
[[nodiscard]] std::vector<Candidate> simulate_finalists(const Scenario& scenario,
                                                        const SearchOptions& options,
                                                        std::vector<Candidate> costed,
                                                        std::vector<Candidate> bounded,
                                                        WaitsCache& simulations);

/// A lower bound of the time of a configuration outside the closed form, which costs no more than
/// the closed form does.
[[nodiscard]] Seconds least_time(const Scenario& scenario, const ParallelConfig& config,
                                 const MicrobatchCosts& costs);

}  // namespace ptdp
