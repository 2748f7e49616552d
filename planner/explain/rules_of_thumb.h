// Published heuristics for choosing the degrees of parallelism, as baselines beside the optimum.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// The choice of a heuristic. Whatever the rule leaves open (microbatch size, interleaving) is
/// chosen optimally.
struct Baseline {
  std::string name;
  std::string source;               ///< Where the heuristic is published.
  std::optional<Candidate> choice;  ///< The choice; nullopt if nothing that follows the rule fits.
};

/// Returns three baselines, in this order:
///   "SC21 table 1": the smallest model-parallel size that fits; tensor parallelism up to the node
///     (MP <= node: TP = MP), pipeline parallelism beyond (TP = node, PP = MP/node), data
///     parallelism for the rest, full recomputation. Source: SC21 (arXiv:2104.04473) sections 5.1
///     and 3, takeaways.
///   "don't over-parallelize": data parallelism with a sharded optimizer as far as it fits; then
///     tensor (and sequence) parallelism within the node, then pipeline parallelism. Each split is
///     tried with selective recomputation (none on a stack without it), then with full. Source:
///     NVIDIA Megatron-Core user guide, parallelism strategies; NVIDIA Megatron Bridge
///     documentation, activation recomputation.
///   "TP in the node, PP until it fits, then DP": full tensor parallelism in the node, the fewest
///     stages that fit, full recomputation. Source: SC21 takeaways 1 and 2, section 3.5.
///
/// Data parallelism takes what GPUs are left. A rule tries the splits that use all GPUs first, and
/// others only if none of these fits: there the batch leaves GPUs idle. Stages may differ in their
/// layers where the stack runs that. No rule shares sequences or shards gradients and weights,
/// unless the stack does nothing else. A kind of recomputation that the stack does not run is
/// skipped; a rule without any left takes what the stack runs. The user's pins, `options.space`,
/// hold for all of them.
[[nodiscard]] std::vector<Baseline> rules_of_thumb(const Scenario& scenario,
                                                   const SearchOptions& options);

/// Returns the baselines of rules_of_thumb(scenario, options). `times` holds the simulations of
/// earlier searches of the same scenario, which are not repeated; more are added.
[[nodiscard]] std::vector<Baseline> rules_of_thumb(const Scenario& scenario,
                                                   const SearchOptions& options,
                                                   IterationTimes& times);

}  // namespace ptdp
