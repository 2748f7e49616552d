// What is known of memory beyond the formulas, as text for people.
#pragma once

#include <string>

#include "cost_model/measured/memory_belief.h"
#include "planner/accuracy/memory_levels.h"

namespace ptdp {

/// Returns a probability that rests on runs as exactly as they say it: "96 %", "about 70 %".
[[nodiscard]] std::string likelihood_text(double probability, const Support& support);
/// Returns a probability of fitting that rests on `beyond`: "fits with 96 %", "fits with over
/// 99 %". Without runs of the cluster and stack it is in tens: "fits with about 70 %", "fits with
/// over 90 %".
[[nodiscard]] std::string fitting_text(double probability, const MemoryBelief& beyond);
/// Returns fitting_text() after a comma; empty where nothing is known.
[[nodiscard]] std::string fitting_remark(double probability, const MemoryBelief& beyond);

/// Returns how much runs have beyond the formulas: "+2.69 GiB, 90 % interval -11.0 .. +16.4 GiB".
[[nodiscard]] std::string beyond_text(const MemoryBelief& beyond);
/// Returns the memory that probabilities of fitting are of, where some is kept free: "the 76.00 GiB
/// that the headroom leaves"; else an empty text.
[[nodiscard]] std::string fitted_memory(Bytes memory, double headroom);
/// Returns a line on what probabilities of fitting rest on, for answers that compare several
/// configurations; empty where nothing is known.
[[nodiscard]] std::string beyond_line(const MemoryBelief& beyond, Bytes memory, double headroom);

/// Returns the line on the memory that plans leave free beyond the formulas; empty where they leave
/// none and no run says so.
[[nodiscard]] std::string reserve_text(const ReservedScenario& reserved);

}  // namespace ptdp
