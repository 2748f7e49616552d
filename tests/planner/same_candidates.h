// Compares what searches found.
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "planner/search/search.h"

namespace ptdp {

/// Expects these candidates, each with its time and memory to the last bit, in this order.
inline void expect_same_candidates(const std::vector<Candidate>& found,
                                   const std::vector<Candidate>& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_EQ(found[i].config, expected[i].config)
        << "place " << i << ": " << to_string(found[i].config) << ", expected "
        << to_string(expected[i].config);
    EXPECT_EQ(found[i].time, expected[i].time);
    EXPECT_EQ(found[i].memory, expected[i].memory);
  }
}

}  // namespace ptdp
