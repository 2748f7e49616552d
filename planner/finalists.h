// Which candidates have to be simulated, and no more.
#pragma once

#include "cost_model/analytic/stage.h"
#include "cost_model/spec/scenario.h"
#include "planner/findings.h"

namespace ptdp {

/// Simulates those of the findings' bounded candidates, of schedules outside the closed form, that
/// may be among the best, or on the Pareto front where that is wanted, and keeps what comes out.
/// Exact: those left out are worse than num_best others, and another is both faster and smaller,
/// whatever their simulation would say. Equal findings give equal ones, whatever their order.
///
/// Best first: the candidate with the lowest bound is looked at next; a cheap bound gives way to
/// that of least_waits, and this to the simulation, until no bound is below the last of the best.
/// `simulations` are those that are known already, of the same scenario.
void simulate_finalists(const Scenario& scenario, const SearchOptions& options, Findings& findings,
                        WaitsCache& simulations);

/// A lower bound of the time of a configuration outside the closed form, which costs no more than
/// the closed form does.
[[nodiscard]] Seconds least_time(const Scenario& scenario, const ParallelConfig& config,
                                 const MicrobatchCosts& costs);

}  // namespace ptdp
