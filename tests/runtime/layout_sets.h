// Sets of layouts for tests that no layout may fail.
#pragma once

#include <vector>

#include "tests/runtime/training_harness.h"

namespace ptdp::testing {

/// Returns every layout that has a schedule for the job, with up to four ranks in each dimension.
[[nodiscard]] std::vector<Layout> all_layouts(const Job& job);

/// Returns a small set of layouts, chosen greedily, that has every pair of values that any layout
/// has.
[[nodiscard]] std::vector<Layout> pairwise_covering(const std::vector<Layout>& layouts);

}  // namespace ptdp::testing
