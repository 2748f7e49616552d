// Sums over the rows of a matrix, column by column, that depend on its shape alone: blocks write
// the sums of chunks of rows, which are then added in order.
#pragma once

#include <cstdint>

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"

namespace ptdp::cuda {

/// Number of rows that a block takes at once, one with each warp.
inline constexpr int kRowLanes = kThreads / kWarp;

/// How rows are cut into chunks. The cut and the order in which rows are added depend on the shape
/// alone, not on how columns are read.
struct SumChunks {
  std::int64_t rows_each = 0;  ///< Rows of a chunk; the last one may have fewer.
  std::int64_t count = 0;      ///< Number of chunks.
};
/// Returns how a matrix of `rows` rows and `width` columns is cut.
[[nodiscard]] SumChunks sum_chunks(std::int64_t rows, std::int64_t width);

/// Returns a grid with a block for each chunk of rows of kWarp vectors of kSize columns.
template <int kSize>
[[nodiscard]] Grid grid_of_chunks(const SumChunks& chunks, std::int64_t width) {
  constexpr std::int64_t columns_of_block = kWarp * kSize;
  const std::int64_t column_blocks = (width + columns_of_block - 1) / columns_of_block;
  return {.blocks =
              dim3(static_cast<unsigned>(column_blocks), static_cast<unsigned>(chunks.count))};
}

/// Returns the sum over the block's warps of their sums for a column.
template <int kSize>
__device__ inline float sum_over_lanes(const float (&sums)[kRowLanes][kWarp * kSize], int column) {
  float total = sums[0][column];
  for (int lane = 1; lane < kRowLanes; ++lane) {
    total += sums[lane][column];
  }
  return total;
}

/// Writes sums[chunk, width] of the chunk and the columns of a block of grid_of_chunks(). `total`
/// are a thread's sums over its rows. Every thread of the block calls it.
template <int kSize>
__device__ inline void write_chunk_sums(const float (&total)[kSize], std::int64_t width,
                                        float* sums) {
  __shared__ float of_lanes[kRowLanes][kWarp * kSize];
  const int thread = static_cast<int>(threadIdx.x);
  for (int e = 0; e < kSize; ++e) {
    of_lanes[thread / kWarp][thread % kWarp * kSize + e] = total[e];
  }
  __syncthreads();
  const std::int64_t column = std::int64_t{blockIdx.x} * (kWarp * kSize) + thread;
  if (thread < kWarp * kSize && column < width) {
    sums[blockIdx.y * width + column] = sum_over_lanes<kSize>(of_lanes, thread);
  }
}

/// Queues the sum of chunks, to[width] += Σ over chunks of sums[chunk, width].
void add_chunk_sums(cudaStream_t stream, const float* sums, const SumChunks& chunks,
                    std::int64_t width, float* to);

}  // namespace ptdp::cuda
