// What to say where no configuration can run.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "planner/search/search.h"

namespace ptdp {

/// Why a search has no result: a contradiction among the pins, or for every violated constraint,
/// most frequent first, a line with what is violated and the nearest values that are not. Lines are
/// indented and end in a newline.
[[nodiscard]] std::string why_nothing_fits(const Scenario& scenario, const SearchOptions& options,
                                           const SearchResult& result);

/// A number of GPUs that would do, and the best configuration on them.
struct LargerCluster {
  std::int64_t gpus = 0;
  ParallelConfig config;
};

/// The first of 2, 4, 8, ... times as many GPUs, as far as the cluster reaches and the answer takes
/// no longer than a search, on which something fits; nothing where more GPUs don't help.
[[nodiscard]] std::optional<LargerCluster> gpus_that_would_do(const Scenario& scenario,
                                                              SearchOptions options);

}  // namespace ptdp
