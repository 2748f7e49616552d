// Sets of layouts for tests that no layout may fail.
#pragma once

#include <vector>

#include "tests/runtime/training_harness.h"

namespace ptdp::testing {

/// Every one that has a schedule for the job, of up to four ranks in each dimension.
[[nodiscard]] std::vector<Layout> all_layouts(const Job& job);

/// Fewest layouts, greedily, that have every pair of values that any layout has.
[[nodiscard]] std::vector<Layout> pairwise_covering(const std::vector<Layout>& layouts);

}  // namespace ptdp::testing
