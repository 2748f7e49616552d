// Why one configuration loses against another, or cannot run at all.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/analytic/iteration.h"
#include "planner/search.h"

namespace ptdp {

/// A term of the time by which two configurations differ.
struct TermDifference {
  std::string_view term;  ///< As in kCostTerms.
  Seconds difference;     ///< Positive: the compared one spends more.
};

/// The terms of `compared` − `reference`, largest absolute difference first.
[[nodiscard]] std::vector<TermDifference> differences(const CostBreakdown& compared,
                                                      const CostBreakdown& reference);

/// One line naming the terms that make up most of the difference: "+4.2 s bubble, +1.0 s
/// tensor_parallel".
[[nodiscard]] std::string describe_differences(const CostBreakdown& compared,
                                               const CostBreakdown& reference);

/// The answer to "why not X", where X may leave keys open.
struct Explanation {
  Pins partial;           ///< X.
  SearchResult matching;  ///< The search over what matches X; its best is the one compared.
  SearchResult all;       ///< The search without X.
};

/// Reads "tp=8,pp=64,recompute=full" (keys tp pp dp vpp b micro_batch_size schedule recompute
/// sequence_parallel zero_stage, in any order). Throws Error for unknown keys, values that cannot
/// be, and a key that is there twice.
[[nodiscard]] Pins parse_partial_config(std::string_view text, const std::string& place);

[[nodiscard]] Explanation explain(const Scenario& scenario, const SearchOptions& options,
                                  const Pins& partial);

/// A number of GPUs that would do, and the best configuration on them.
struct LargerCluster {
  std::int64_t gpus = 0;
  ParallelConfig config;
};

/// The first of 2, 4, 8, ... times as many GPUs, as far as the cluster reaches and the answer takes
/// no longer than a search, on which something fits; nothing where more GPUs don't help.
[[nodiscard]] std::optional<LargerCluster> gpus_that_would_do(const Scenario& scenario,
                                                              SearchOptions options);

/// For every violated constraint of a search without result, most frequent first: what is violated,
/// and the nearest values that are not.
[[nodiscard]] std::vector<std::string> nearest_feasible(const Scenario& scenario,
                                                        const SearchOptions& options,
                                                        const SearchResult& result);

}  // namespace ptdp
