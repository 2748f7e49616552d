// Tiles of attention on a GPU. A block multiplies 64 × 64 tiles in f32, 64 columns of the vectors
// at a time, so that its shared memory does not depend on the head size.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/attention_heads.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {

/// Number of threads that share rows of a tile.
inline constexpr int kTileLanes = 16;
/// Rows of a tile that one thread has; they follow each other.
inline constexpr int kTileRows = 4;
/// Columns of a tile that one thread has: every kTileLanes-th column of scores, but adjacent
/// columns of vectors.
inline constexpr int kTileColumns = 4;
static_assert(kThreads / kTileLanes * kTileRows == kTile && kTileLanes * kTileColumns == kTile);

/// A tile of 64 × 64 numbers in shared memory; padding keeps rows in different banks.
struct Tile {
  Vector<float, 4> values[kTile][kTile / 4 + 1];

  __device__ float& at(int row, int column) { return values[row][column / 4][column % 4]; }
};
/// The dynamic shared memory of a block.
struct SharedTiles {
  Tile rows;
  Tile columns;
  Tile weights;
};

/// One thread's part of a 64 × 64 tile of scores.
struct Scores {
  float values[kTileRows][kTileColumns];
};
/// One thread's part of a tile of vectors with at most 64·kChunks columns.
template <int kChunks>
struct VectorSums {
  float values[kChunks][kTileRows][kTileColumns];
};

/// Returns the row in the tile of the thread's i-th row.
__device__ inline int tile_row(int i) {
  return static_cast<int>(threadIdx.x) / kTileLanes * kTileRows + i;
}
/// Returns the number of this thread among those that share its rows.
__device__ inline int tile_lane() {
  return static_cast<int>(threadIdx.x) % kTileLanes;
}
/// Returns the column in the tile of the thread's i-th column of scores.
__device__ inline int score_column(int i) {
  return tile_lane() + kTileLanes * i;
}

/// Calls function(r, c) for every score that a thread has. The scores stay in registers when all
/// loops over them are unrolled.
template <class Function>
__device__ inline void for_each_score(const Function& function) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int i = 0; i < kTileRows * kTileColumns; ++i) {
    function(i / kTileColumns, i % kTileColumns);
  }
}

/// Returns the maximum of x over the threads that share rows.
__device__ inline float maximum_of_row(float x) {
  for (int offset = kTileLanes / 2; offset > 0; offset /= 2) {
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFFU, x, offset));
  }
  return x;
}
/// Returns the sum of x over the threads that share rows.
__device__ inline float sum_of_row(float x) {
  for (int offset = kTileLanes / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xFFFFFFFFU, x, offset);
  }
  return x;
}

/// Calls visit(row, column) for the first element of each chunk of a tile that this thread copies.
/// Eight neighboring threads, which access shared memory at once, meet different banks.
template <class T, class Visit>
__device__ inline void visit_chunks_of_tile(const Visit& visit) {
  constexpr int fours = kVectorSize<T> / 4;
  constexpr int lanes = 8 / fours;
  // One at a time, since unrolled loops keep the addresses of all chunks.
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int step = 0; step < kTile * kTile / kVectorSize<T> / kThreads; ++step) {
    const int i = step * kThreads + static_cast<int>(threadIdx.x);
    visit(i / 16 * fours + i / lanes % fours, (i % lanes + i / 8 % 2 * lanes) * kVectorSize<T>);
  }
}

/// Returns a chunk of the vector of a position, with 0 where there is none.
template <class T>
__device__ inline Packed<T> chunk_of(const HeadRows<const T>& from, int position, int column) {
  if (position >= from.count || column >= from.size) {
    return {};
  }
  const T* const vector = from.first + std::int64_t{position} * from.stride;
  return from.has_chunks ? load_chunk</*kIsAligned=*/true>(vector, column, from.size)
                         : load_chunk</*kIsAligned=*/false>(vector, column, from.size);
}

/// Copies 64 columns of 64 positions to a tile, and zeros where there are none.
template <class T>
__device__ inline void stage(const HeadRows<const T>& from, int first_row, int first_column,
                             Tile& to) {
  visit_chunks_of_tile<T>([&](int row, int column) {
    const Packed<T> chunk = chunk_of(from, first_row + row, first_column + column);
    for (int j = 0; j < kVectorSize<T>; j += 4) {
      to.values[row][(column + j) / 4] = {chunk[j], chunk[j + 1], chunk[j + 2], chunk[j + 3]};
    }
  });
}

/// Copies a tile to 64 columns of 64 positions, as far as there are some.
template <class T>
__device__ inline void unstage(const Tile& from, const HeadRows<T>& to, int first_row,
                               int first_column) {
  visit_chunks_of_tile<T>([&](int row, int column) {
    if (first_row + row < to.count && first_column + column < to.size) {
      Chunk<T> chunk;
      for (int j = 0; j < kVectorSize<T>; ++j) {
        chunk[j] = narrow<T>(from.values[row][(column + j) / 4][j % 4]);
      }
      T* const vector = to.first + std::int64_t{first_row + row} * to.stride;
      if (to.has_chunks) {
        store_chunk</*kIsAligned=*/true>(chunk, vector, first_column + column, to.size);
      } else {
        store_chunk</*kIsAligned=*/false>(chunk, vector, first_column + column, to.size);
      }
    }
  });
}

/// Returns the inner products of row vectors from `first_row` on and column vectors from
/// `first_column` on. Every thread of the block calls it.
template <class T>
__device__ inline Scores inner_products(const HeadRows<const T>& rows, int first_row,
                                        const HeadRows<const T>& columns, int first_column,
                                        SharedTiles& shared) {
  Scores scores{};
  for (int first = 0; first < rows.size; first += kTile) {
    stage(rows, first_row, first, shared.rows);
    stage(columns, first_column, first, shared.columns);
    __syncthreads();
    for (int k = 0; k < kTile / 4 && first + 4 * k < rows.size; ++k) {
      Vector<float, 4> a[kTileRows];
      for (int r = 0; r < kTileRows; ++r) {
        a[r] = shared.rows.values[tile_row(r)][k];
      }
      for (int c = 0; c < kTileColumns; ++c) {
        const Vector<float, 4> b = shared.columns.values[score_column(c)][k];
        for (int r = 0; r < kTileRows; ++r) {
          for (int n = 0; n < 4; ++n) {
            scores.values[r][c] += a[r][n] * b[n];
          }
        }
      }
    }
    __syncthreads();
  }
  return scores;
}

/// Writes a thread's scores to their places in a tile.
__device__ inline void share(const Scores& scores, Tile& to) {
  for_each_score([&](int r, int c) { to.at(tile_row(r), score_column(c)) = scores.values[r][c]; });
}

/// Adds to `sums` the product of weights and the vectors from `first` on. Every thread of the block
/// calls it, after it has written its weights, which may be any tile but `columns`.
template <int kChunks, class T>
__device__ inline void add_weighted(const Tile& weights, const HeadRows<const T>& vectors,
                                    int first, Tile& columns, VectorSums<kChunks>& sums) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    if (chunk * kTile < vectors.size) {
      stage(vectors, first, chunk * kTile, columns);
      __syncthreads();
      for (int k = 0; k < kTile / 4 && first + 4 * k < vectors.count; ++k) {
        Vector<float, 4> a[kTileRows];
        for (int r = 0; r < kTileRows; ++r) {
          a[r] = weights.values[tile_row(r)][k];
        }
        for (int n = 0; n < 4; ++n) {
          const Vector<float, 4> b = columns.values[4 * k + n][tile_lane()];
          for (int r = 0; r < kTileRows; ++r) {
            for (int c = 0; c < kTileColumns; ++c) {
              sums.values[chunk][r][c] += a[r][n] * b[c];
            }
          }
        }
      }
      __syncthreads();
    }
  }
}

/// Writes rows from `first` on, each times its factor. Every thread of the block calls it.
template <int kChunks, class T>
__device__ inline void store_rows(const VectorSums<kChunks>& sums,
                                  const float (&factors)[kTileRows], int first,
                                  const HeadRows<T>& to, Tile& columns) {
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int chunk = 0; chunk < kChunks; ++chunk) {
    if (chunk * kTile < to.size) {
      for (int r = 0; r < kTileRows; ++r) {
        const auto& row = sums.values[chunk][r];
        columns.values[tile_row(r)][tile_lane()] = {row[0] * factors[r], row[1] * factors[r],
                                                    row[2] * factors[r], row[3] * factors[r]};
      }
      __syncthreads();
      unstage(columns, to, first, chunk * kTile);
      __syncthreads();
    }
  }
}

/// Returns how many blocks a multiprocessor should hold at once, as far as registers allow.
inline constexpr int blocks_at_once(int chunks) {
  return chunks <= 2 ? 2 : 1;
}

/// Returns a grid with a block for each tile of each of `heads` heads.
[[nodiscard]] inline Grid grid_of_tiles(const Attention& shape, std::int64_t heads) {
  const std::int64_t tiles = (shape.seq_length + kTile - 1) / kTile;
  return {.blocks = static_cast<unsigned>(tiles * shape.batch * heads),
          .threads = kThreads,
          .shared_bytes = sizeof(SharedTiles)};
}

}  // namespace ptdp::cuda
