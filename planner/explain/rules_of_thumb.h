// Published heuristics for choosing the degrees of parallelism, as baselines beside the optimum.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// The choice of a heuristic. Data parallelism takes what GPUs are left; whatever the rule leaves
/// open (microbatch size, interleaving, recomputation) is chosen optimally.
struct Baseline {
  std::string name;
  std::string source;               ///< Where the heuristic is published.
  std::optional<Candidate> choice;  ///< The choice; nullopt if nothing that follows the rule fits.
};

/// Returns three baselines, in this order:
///   "SC21 table 1": the smallest model-parallel size that fits; tensor parallelism up to the node
///     (MP <= node: TP = MP), pipeline parallelism beyond (TP = node, PP = MP/node), data
///     parallelism for the rest. Source: SC21 (arXiv:2104.04473) sections 5.1 and 3, takeaways.
///   "don't over-parallelize": data parallelism with a sharded optimizer as far as it fits; then
///     tensor (and sequence) parallelism within the node, then pipeline parallelism. Source: NVIDIA
///     Megatron-Core user guide, parallelism strategies.
///   "TP in the node, PP until it fits, then DP": full tensor parallelism in the node, the fewest
///     stages that fit. Source: SC21 takeaways 1 and 2.
/// The user's pins, `options.space`, hold for all of them.
[[nodiscard]] std::vector<Baseline> rules_of_thumb(const Scenario& scenario,
                                                   const SearchOptions& options);

/// Returns the baselines of rules_of_thumb(scenario, options). `times` holds the simulations of
/// earlier searches of the same scenario, which are not repeated; more are added.
[[nodiscard]] std::vector<Baseline> rules_of_thumb(const Scenario& scenario,
                                                   const SearchOptions& options,
                                                   IterationTimes& times);

}  // namespace ptdp
