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

/// Where the outputs of a matrix (its rows) or of a vector (its elements) lie in a larger one: in
/// runs of `run` that begin at `first` and are `stride` apart.
struct OutputRuns {
  std::int64_t first = 0;
  std::int64_t run = 0;
  std::int64_t stride = 0;
};

/// Elements of a block that are a rectangle of the larger matrix or vector.
struct PlacedBlock {
  std::int64_t first_output = 0;  ///< First row of the rectangle, or first element of a vector.
  std::int64_t outputs = 0;       ///< Number of rows or elements.
  std::int64_t first_input = 0;   ///< First column; 0 for a vector.
  std::int64_t inputs = 0;        ///< Number of columns; 1 for a vector.
  Part values;                    ///< The elements, counted from the beginning of the range.
};

/// Returns the rectangles of the larger matrix or vector that hold `range` of a block, counted row
/// by row. The block of a vector has one row, whose columns are its outputs.
[[nodiscard]] std::vector<PlacedBlock> placed_blocks(const OutputRuns& runs, bool is_vector,
                                                     const MatrixBlock& block, const Part& range);

}  // namespace ptdp
