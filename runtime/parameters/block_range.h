// What two ranks' pieces of one matrix have in common, however each is cut.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/backend.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// What two ranges of numbers share; count 0 where they share nothing.
[[nodiscard]] Part intersection(const Part& a, const Part& b);

/// The block without the rows that pad a matrix of `total_rows`; it may have no rows then.
[[nodiscard]] MatrixBlock without_padding(MatrixBlock block, std::int64_t total_rows);

/// Elements of a block of a matrix, counted row by row through the block.
struct BlockRange {
  MatrixBlock block;
  Part range;
};

/// Elements that follow each other in two ranges: counted from the beginning of each range.
struct SharedRun {
  std::int64_t first_in_a = 0;
  std::int64_t first_in_b = 0;
  std::int64_t count = 0;
};

/// All that two ranges of one matrix share, in runs as long as both allow.
[[nodiscard]] std::vector<SharedRun> shared_runs(const BlockRange& a, const BlockRange& b);

}  // namespace ptdp
