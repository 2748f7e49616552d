// Finds what two ranks' pieces of one matrix have in common, however each is cut.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// Returns what two ranges of numbers share; its count is 0 when they share nothing.
[[nodiscard]] Part intersection(const Part& a, const Part& b);

/// Returns the block without the rows that pad a matrix of `total_rows`. The result may have no
/// rows.
[[nodiscard]] MatrixBlock without_padding(MatrixBlock block, std::int64_t total_rows);

/// A range of the elements of a matrix block, counted row by row through the block.
struct BlockRange {
  MatrixBlock block;
  Part range;
};

/// A run of elements that follow each other in both of two ranges. Places count from the beginning
/// of each range.
struct OverlapRange {
  std::int64_t first_in_a = 0;
  std::int64_t first_in_b = 0;
  std::int64_t count = 0;
};

/// Returns all elements that two ranges of one matrix share, in runs as long as both ranges allow.
[[nodiscard]] std::vector<OverlapRange> shared_runs(const BlockRange& a, const BlockRange& b);

}  // namespace ptdp
