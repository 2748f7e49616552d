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
  std::string_view term;  ///< As in kCostTerms.
  Seconds difference;     ///< Positive: the compared one spends more.
};

/// The terms of `compared` − `reference`, largest absolute difference first.
[[nodiscard]] std::vector<TermDifference> differences(const CostBreakdown& compared,
                                                      const CostBreakdown& reference);

/// The breakdown of one iteration in what the objective counts: seconds, or GPU-seconds.
[[nodiscard]] CostBreakdown counted(CostBreakdown cost, const ParallelConfig& config,
                                    Objective objective);
/// "s" or "GPU-s".
[[nodiscard]] std::string_view unit_of(Objective objective);

/// One line naming the terms that make up most of the difference: "+4.2 s bubble, +1.0 s
/// tensor_parallel".
[[nodiscard]] std::string describe_differences(const CostBreakdown& compared,
                                               const CostBreakdown& reference,
                                               std::string_view unit = "s");

/// The answer to "why not X", where X may leave keys open.
struct Explanation {
  SearchOptions matching_options;  ///< Those of the search, with X in place of what it fixes.
  SearchResult matching;           ///< The search over what matches X; its best is compared.
  SearchResult all;                ///< The search without X.
};

/// Reads "tp=8,pp=64,recompute=full", with the keys of kConfigFields, long or short, in any order;
/// "block=2" is two layers by that method. A configuration as to_string() prints it is that one and
/// no other. Throws Error for unknown keys, values that cannot be, and a key that is there twice.
[[nodiscard]] Pins parse_partial_config(std::string_view text, const std::string& place);

[[nodiscard]] Explanation explain(const Scenario& scenario, const SearchOptions& options,
                                  const Pins& partial);

}  // namespace ptdp
