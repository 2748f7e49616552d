// Why one configuration loses against another, or cannot run at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/iteration/iteration.h"
#include "planner/search/search.h"

namespace ptdp {

/// A term of the time by which two configurations differ.
struct TermDifference {
  std::string_view term;  ///< Name of the term in kCostTerms.
  Seconds difference;     ///< Compared minus reference: positive if the compared one spends more.
};

/// Returns the terms of `compared` − `reference`, largest absolute difference first.
[[nodiscard]] std::vector<TermDifference> differences(const CostBreakdown& compared,
                                                      const CostBreakdown& reference);

/// Returns the breakdown of one iteration in what the objective counts: seconds, or GPU-seconds.
[[nodiscard]] CostBreakdown counted(CostBreakdown cost, const ParallelConfig& config,
                                    Objective objective);
/// Returns the unit of what the objective counts: "s" or "GPU-s".
[[nodiscard]] std::string_view unit_of(Objective objective);

/// Returns one line that names the terms with most of the difference: "+4.2 s bubble, +1.0 s
/// tensor_parallel". As many as it takes for their sum to have the sign of the whole.
[[nodiscard]] std::string describe_differences(const CostBreakdown& compared,
                                               const CostBreakdown& reference,
                                               std::string_view unit = "s");

/// The answer to "why not X", where X is a configuration that may leave keys open.
struct Explanation {
  SearchOptions matching_options;  ///< Options of the search, with the pins of X put in.
  SearchResult matching;  ///< Result of the search over what matches X; its best is compared.
  SearchResult all;       ///< Result of the search without X.
};

/// Reads a partial configuration such as "tp=8,pp=64,recompute=full". Keys are those of
/// kConfigFields, long or short, in any order; "block=2" is two layers by that method. A
/// configuration as to_string() prints it matches itself alone. Throws Error for unknown keys,
/// values that cannot be, and a key that is there twice.
[[nodiscard]] SearchSpace parse_partial_config(std::string_view text, const std::string& place);

/// Searches with and without the pins of `partial`, derived plans included. Throws Error when
/// `partial` offloads a number of layers but no activations.
[[nodiscard]] Explanation explain(const Scenario& scenario, const SearchOptions& options,
                                  const SearchSpace& partial);

}  // namespace ptdp
