// What to say when no configuration can run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/search/search.h"

namespace ptdp {

/// Returns why a search has no result: a contradiction among the pins, or a line for every violated
/// constraint, most frequent first. A line says what is violated, how often, and the nearest values
/// that would do. Lines are indented and end in a newline.
[[nodiscard]] std::string why_nothing_fits(const Scenario& scenario, const SearchOptions& options,
                                           const SearchResult& result);

/// Returns why one configuration cannot run: what it violates, and the nearest values that would
/// do. `shortfall` is for constraints on memory.
[[nodiscard]] std::string why_not(const Scenario& scenario, const ParallelConfig& config,
                                  Constraint constraint,
                                  const std::optional<MemoryShortfall>& shortfall);

/// A number of GPUs that would do, and the best configuration on them.
struct LargerCluster {
  std::int64_t gpus = 0;
  ParallelConfig config;
};

/// Returns the first of 2, 4, 8, ... times as many GPUs on which something fits. Tries as far as
/// the cluster reaches, the options' limit is not over, and the answer takes no longer than a
/// search. Returns nullopt when no number tried helps.
[[nodiscard]] std::optional<LargerCluster> gpus_that_would_do(const Scenario& scenario,
                                                              SearchOptions options);

}  // namespace ptdp
