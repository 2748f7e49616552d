// Sums down the columns of a matrix without atomics: first over chunks of rows, then over chunks.
#include <algorithm>
#include <cassert>

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// Adds rows first, first + kRowLanes, ... before `end` to `total`, one by one. `x` points to a
/// vector of columns in row 0.
template <class T, int kSize>
__device__ void add_rows(const T* x, std::int64_t first, std::int64_t end, std::int64_t width,
                         float (&total)[kSize]) {
  constexpr int at_once = 4;  // Reads in flight.
  for (std::int64_t row = first; row < end; row += at_once * kRowLanes) {
    Vector<T, kSize> vectors[at_once] = {};
    for (int i = 0; i < at_once; ++i) {
      if (row + i * kRowLanes < end) {
        vectors[i] = load<kSize>(x + (row + i * kRowLanes) * width, 0);
      }
    }
    for (const Vector<T, kSize>& vector : vectors) {
      const Vector<float, kSize> terms = widened(vector);
      for (int e = 0; e < kSize; ++e) {
        total[e] += terms[e];
      }
    }
  }
}

/// Writes sums[chunk, width], the sums of a chunk's rows. The threads of a warp have neighboring
/// vectors of columns.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads)
    chunk_sums_kernel(const T* x, std::int64_t rows, std::int64_t width, std::int64_t rows_each,
                      float* sums) {
  const int lane = static_cast<int>(threadIdx.x) / kWarp;
  const int in_warp = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + in_warp) * kSize;
  const std::int64_t first_row = std::int64_t{blockIdx.y} * rows_each;
  const std::int64_t end = first_row + rows_each < rows ? first_row + rows_each : rows;
  float total[kSize] = {};
  if (column < width) {
    add_rows<T, kSize>(x + column, first_row + lane, end, width, total);
  }
  write_chunk_sums<kSize>(total, width, sums);
}

/// Adds the sums of chunks: to[width] += Σ over chunks of sums[chunk, width].
__global__ void __launch_bounds__(kThreads)
    add_chunk_sums_kernel(const float* sums, std::int64_t num_chunks, std::int64_t width,
                          float* to) {
  __shared__ float of_lanes[kRowLanes][kWarp];
  const int lane = static_cast<int>(threadIdx.x) / kWarp;
  const int in_warp = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t column = std::int64_t{blockIdx.x} * kWarp + in_warp;
  float total = 0.0F;
  if (column < width) {
    for (std::int64_t chunk = lane; chunk < num_chunks; chunk += kRowLanes) {
      total += sums[chunk * width + column];
    }
  }
  of_lanes[lane][in_warp] = total;
  __syncthreads();
  if (lane == 0 && column < width) {
    to[column] += sum_over_lanes<1>(of_lanes, in_warp);
  }
}

void bias_gradient(const Queue& queue, Buffer dy, Buffer gradient, std::int64_t rows) {
  const std::int64_t width = gradient.size;
  assert(dy.size == rows * width && gradient.type == accumulator_of(dy.type));
  if (dy.empty()) {
    return;
  }
  const SumChunks chunks = sum_chunks(rows, width);
  const Tensor scratch(queue.memory, gradient.type, chunks.count * width);
  auto* const sums = elements<float>(scratch);
  visit_working_type(dy.type, [&]<class T>(T) {
    const T* const x = elements<T>(dy);
    visit_vector_size<T>(
        width, are_aligned(16, x), [&]<int kSize>(std::integral_constant<int, kSize>) {
          launch(queue.stream, grid_of_chunks<kSize>(chunks, width), chunk_sums_kernel<T, kSize>, x,
                 rows, width, chunks.rows_each, sums);
        });
  });
  add_chunk_sums(queue.stream, sums, chunks, width, elements<float>(gradient));
}

}  // namespace

SumChunks sum_chunks(std::int64_t rows, std::int64_t width) {
  // Enough chunks to keep every GPU busy, but far fewer chunks than rows.
  constexpr std::int64_t blocks_wanted = 2048;
  constexpr std::int64_t columns_of_block = kWarp * kVectorSize<BFloat16>;
  constexpr std::int64_t least_rows = 64;
  const std::int64_t column_blocks = (width + columns_of_block - 1) / columns_of_block;
  const std::int64_t wanted =
      std::max<std::int64_t>((blocks_wanted + column_blocks - 1) / column_blocks, 1);
  const std::int64_t least = std::max((rows + wanted - 1) / wanted, least_rows);
  const std::int64_t rows_each = (least + kRowLanes - 1) / kRowLanes * kRowLanes;
  return {rows_each, (rows + rows_each - 1) / rows_each};
}

void add_chunk_sums(cudaStream_t stream, const float* sums, const SumChunks& chunks,
                    std::int64_t width, float* to) {
  const Grid grid{.blocks = static_cast<unsigned>((width + kWarp - 1) / kWarp)};
  launch(stream, grid, add_chunk_sums_kernel, sums, chunks.count, width, to);
}

void add_column_sum_kernels(Kernels& kernels) {
  kernel_of<&Backend::bias_gradient>(kernels) = bias_gradient;
}

}  // namespace ptdp::cuda
