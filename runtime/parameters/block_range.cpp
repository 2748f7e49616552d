#include "runtime/parameters/block_range.h"

#include <algorithm>

namespace ptdp {
namespace {

/// A rectangle in rows and columns of the whole matrix.
struct Rectangle {
  Part rows;
  Part columns;
};

/// Cuts a range into rectangles, at most three: the rest of a row, whole rows, the beginning of a
/// row.
std::vector<Rectangle> rectangles_of(const BlockRange& of) {
  std::vector<Rectangle> rectangles;
  const MatrixBlock& block = of.block;
  std::int64_t place = of.range.first;
  std::int64_t left = of.range.count;
  while (left > 0) {
    const std::int64_t column = place % block.columns;
    const bool is_whole = column == 0 && left >= block.columns;
    const std::int64_t rows = is_whole ? left / block.columns : 1;
    const std::int64_t columns = is_whole ? block.columns : std::min(left, block.columns - column);
    rectangles.push_back({.rows = {block.first_row + place / block.columns, rows},
                          .columns = {block.first_column + column, columns}});
    place += rows * columns;
    left -= rows * columns;
  }
  return rectangles;
}

/// Returns the place of an element of the whole matrix, counted from the beginning of the range.
std::int64_t place_in(const BlockRange& of, std::int64_t row, std::int64_t column) {
  return (row - of.block.first_row) * of.block.columns + (column - of.block.first_column) -
         of.range.first;
}

/// Appends the runs of a rectangle that both ranges contain.
void append_runs(const Rectangle& common, const BlockRange& a, const BlockRange& b,
                 std::vector<OverlapRange>& runs) {
  if (common.rows.count == 0 || common.columns.count == 0) {
    return;
  }
  const std::int64_t columns = common.columns.count;
  const bool is_one_run = columns == a.block.columns && columns == b.block.columns;
  const std::int64_t rows_per_run = is_one_run ? common.rows.count : 1;
  for (std::int64_t row = 0; row < common.rows.count; row += rows_per_run) {
    runs.push_back({.first_in_a = place_in(a, common.rows.first + row, common.columns.first),
                    .first_in_b = place_in(b, common.rows.first + row, common.columns.first),
                    .count = rows_per_run * columns});
  }
}

}  // namespace

Part intersection(const Part& a, const Part& b) {
  const std::int64_t first = std::max(a.first, b.first);
  const std::int64_t end = std::min(a.first + a.count, b.first + b.count);
  return {first, std::max(end - first, std::int64_t{0})};
}

MatrixBlock without_padding(MatrixBlock block, std::int64_t total_rows) {
  block.rows = std::clamp<std::int64_t>(total_rows - block.first_row, 0, block.rows);
  return block;
}

std::vector<OverlapRange> shared_runs(const BlockRange& a, const BlockRange& b) {
  std::vector<OverlapRange> runs;
  for (const Rectangle& of_a : rectangles_of(a)) {
    for (const Rectangle& of_b : rectangles_of(b)) {
      append_runs({.rows = intersection(of_a.rows, of_b.rows),
                   .columns = intersection(of_a.columns, of_b.columns)},
                  a, b, runs);
    }
  }
  return runs;
}

std::vector<PlacedBlock> placed_blocks(const OutputRuns& runs, bool is_vector,
                                       const MatrixBlock& block, const Part& range) {
  std::vector<PlacedBlock> blocks;
  for (std::int64_t done = 0; done < range.count;) {
    const std::int64_t row = (range.first + done) / block.columns;
    const std::int64_t column = (range.first + done) % block.columns;
    const std::int64_t left = range.count - done;
    const std::int64_t output = is_vector ? block.first_column + column : block.first_row + row;
    const std::int64_t together = runs.run - output % runs.run;
    PlacedBlock placed{.first_output =
                           runs.first + output / runs.run * runs.stride + output % runs.run};
    if (is_vector) {
      placed.outputs = std::min({left, block.columns - column, together});
      placed.inputs = 1;
    } else {
      // As many whole rows as lie together, or a part of one.
      const bool is_whole = column == 0 && left >= block.columns;
      placed.outputs = is_whole ? std::min(left / block.columns, together) : 1;
      placed.first_input = block.first_column + column;
      placed.inputs = is_whole ? block.columns : std::min(left, block.columns - column);
    }
    placed.values = {done, placed.outputs * placed.inputs};
    done += placed.values.count;
    blocks.push_back(placed);
  }
  return blocks;
}

}  // namespace ptdp
