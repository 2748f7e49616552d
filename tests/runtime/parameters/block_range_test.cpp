// Tests of the elements that two ranges of blocks share.
#include "runtime/parameters/block_range.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>

namespace ptdp {
namespace {

/// Returns each element's place in the range, by its number in the whole matrix.
std::map<std::int64_t, std::int64_t> places_of(const BlockRange& of) {
  std::map<std::int64_t, std::int64_t> places;
  for (std::int64_t i = 0; i < of.range.count; ++i) {
    const std::int64_t in_block = of.range.first + i;
    const std::int64_t row = of.block.first_row + in_block / of.block.columns;
    const std::int64_t column = of.block.first_column + in_block % of.block.columns;
    places[row * of.block.total_columns + column] = i;
  }
  return places;
}

class RandomRanges {
 public:
  BlockRange next(std::int64_t total_rows, std::int64_t total_columns) {
    const Part rows = next_part(total_rows);
    const Part columns = next_part(total_columns);
    const MatrixBlock block{.first_row = rows.first,
                            .first_column = columns.first,
                            .rows = rows.count,
                            .columns = columns.count,
                            .total_columns = total_columns};
    return {block, next_part(block.rows * block.columns)};
  }
  /// Draws a part of `n` elements, mostly large, so that two parts often overlap.
  Part next_part(std::int64_t n) {
    const std::int64_t first = below(n / 3 + 1);
    const std::int64_t count = n - first - below((n - first) / 2 + 1);
    return {first, count};
  }
  std::int64_t below(std::int64_t n) {
    return std::uniform_int_distribution<std::int64_t>(0, n - 1)(engine_);
  }

 private:
  std::mt19937 engine_{1};
};

TEST(SharedRuns, AreWhatBothRangesHoldElementByElement) {
  RandomRanges ranges;
  std::size_t num_shared = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    const std::int64_t rows = 1 + ranges.below(12);
    const std::int64_t columns = 1 + ranges.below(12);
    const BlockRange a = ranges.next(rows, columns);
    const BlockRange b = ranges.next(rows, columns);
    const auto in_a = places_of(a);
    const auto in_b = places_of(b);
    std::map<std::int64_t, std::int64_t> expected;  // of b by a
    for (const auto& [element, place] : in_a) {
      if (in_b.contains(element)) {
        expected[place] = in_b.at(element);
      }
    }
    std::map<std::int64_t, std::int64_t> found;
    for (const OverlapRange& run : shared_runs(a, b)) {
      EXPECT_GT(run.count, 0);
      for (std::int64_t i = 0; i < run.count; ++i) {
        EXPECT_TRUE(found.emplace(run.first_in_a + i, run.first_in_b + i).second);
      }
    }
    ASSERT_EQ(found, expected) << "trial " << trial;
    num_shared += found.size();
  }
  EXPECT_GT(num_shared, 20'000U);
}

TEST(SharedRuns, AreOneWhereBothHoldWholeRows) {
  const MatrixBlock upper{.rows = 6, .columns = 5, .total_columns = 5};
  const MatrixBlock lower{.first_row = 4, .rows = 6, .columns = 5, .total_columns = 5};
  const auto runs = shared_runs({upper, {0, 30}}, {lower, {0, 30}});
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].first_in_a, 20);
  EXPECT_EQ(runs[0].first_in_b, 0);
  EXPECT_EQ(runs[0].count, 10);
}

TEST(WithoutPadding, CutsRowsBeyondTheMatrix) {
  const MatrixBlock block{.first_row = 8, .rows = 4, .columns = 3, .total_columns = 3};
  EXPECT_EQ(without_padding(block, 20).rows, 4);
  EXPECT_EQ(without_padding(block, 10).rows, 2);
  EXPECT_EQ(without_padding(block, 5).rows, 0);
}

}  // namespace
}  // namespace ptdp
