// Softmax and cross-entropy over a rank's columns of the logits, with a block per row.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"
#include "kernels/cuda/total.h"

namespace ptdp::cuda {
namespace {

/// A rank's logits: rows of `width` columns, of which the first `num_valid` do not pad.
template <class T>
struct LogitRows {
  T* logits;
  std::int64_t rows;
  std::int64_t width;
  std::int64_t num_valid;
  std::int64_t first_token;
};

template <class T>
LogitRows<T> rows_of(Buffer logits, const VocabShard& shard, std::int64_t rows) {
  assert(logits.size == rows * shard.width);
  return {.logits = elements<T>(logits),
          .rows = rows,
          .width = shard.width,
          .num_valid = std::clamp<std::int64_t>(shard.num_valid - shard.first, 0, shard.width),
          .first_token = shard.first};
}

/// The targets and statistics of rows beside their logits.
struct RowFigures {
  const std::int32_t* targets;
  const float* maxima;
  float* sums;  ///< Sums [2, rows], as Backend::softmax_sums has them.
};

/// Returns e^(x − most) for x <= most. For 16-bit logits it forms one product less. The rounding of
/// most·log2(e) then scales all powers of a row alike, which the division by their sum undoes.
template <class T>
__device__ float power_of(float x, float most) {
  if constexpr (sizeof(T) == 2) {
    constexpr float kLog2E = 1.44269504F;
    return exp2f(fmaf(x, kLog2E, -(most * kLog2E)));
  } else {
    return expf(x - most);
  }
}

/// Calls visit(chunk, count) for this thread's chunks that have valid columns, which are the first
/// `count` of a chunk. `count` is a constant except in the last chunk.
template <bool kIsAligned, class T, class Visit>
__device__ void visit_valid(const LogitRows<T>& rows, const T* row, const Visit& visit) {
  constexpr int kSize = kVectorSize<T>;
  const std::int64_t stride = std::int64_t{blockDim.x} * kSize;
  std::int64_t first = std::int64_t{threadIdx.x} * kSize;
  // Two chunks at once, so that the second is in flight while the first is summed.
  for (; first + stride + kSize <= rows.num_valid; first += 2 * stride) {
    const Packed<T> chunk = load_chunk<kIsAligned>(row, first, rows.width);
    const Packed<T> next = load_chunk<kIsAligned>(row, first + stride, rows.width);
    visit(chunk, kSize);
    visit(next, kSize);
  }
  for (; first < rows.num_valid; first += stride) {
    const std::int64_t left = rows.num_valid - first;
    visit(load_chunk<kIsAligned>(row, first, rows.width),
          left < kSize ? static_cast<int>(left) : kSize);
  }
}

/// Computes the maxima of rows over valid columns.
template <class T, bool kIsAligned>
__global__ void maxima_of_rows(LogitRows<T> rows, float* maxima) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  for (std::int64_t r = blockIdx.x; r < rows.rows; r += gridDim.x) {
    float most = kNone;
    // NaNs are kept apart, since a maximum passes over them.
    float fault = 0.0F;
    visit_valid<kIsAligned>(rows, rows.logits + r * rows.width,
                            [&](const Packed<T>& chunk, int count) {
                              for (int j = 0; j < kVectorSize<T>; ++j) {
                                const float x = j < count ? chunk[j] : kNone;
                                most = fmaxf(most, x);
                                fault = x == x ? fault : x;
                              }
                            });
    most = block_maximum(most, kNone);
    fault = block_sum(fault);
    if (threadIdx.x == 0) {
      maxima[r] = fault == fault ? most : fault;
    }
  }
}

/// Computes the softmax sums of rows, and the targets' logits minus the maximum.
template <class T, bool kIsAligned>
__global__ void sums_of_rows(LogitRows<T> rows, RowFigures figures) {
  for (std::int64_t r = blockIdx.x; r < rows.rows; r += gridDim.x) {
    const T* const row = rows.logits + r * rows.width;
    const float most = figures.maxima[r];
    float sum = 0.0F;
    visit_valid<kIsAligned>(rows, row, [&](const Packed<T>& chunk, int count) {
      for (int j = 0; j < kVectorSize<T>; ++j) {
        const float power = power_of<T>(chunk[j], most);
        sum += j < count ? power : 0.0F;
      }
    });
    sum = block_sum(sum);
    if (threadIdx.x == 0) {
      const std::int64_t target = figures.targets[r] - rows.first_token;
      const bool has_target = target >= 0 && target < rows.num_valid;
      figures.sums[r] = sum;
      figures.sums[rows.rows + r] = has_target ? widen(row[target]) - most : 0.0F;
    }
  }
}

/// Replaces the logits of rows by their gradients. `per_cap` is 1/cap of capped logits, else 0.
template <class T, bool kIsAligned>
__global__ void gradients_of_rows(LogitRows<T> rows, RowFigures figures, float scale,
                                  float per_cap) {
  constexpr int kSize = kVectorSize<T>;
  const std::int64_t stride = std::int64_t{blockDim.x} * kSize;
  for (std::int64_t r = blockIdx.x; r < rows.rows; r += gridDim.x) {
    T* const row = rows.logits + r * rows.width;
    const float most = figures.maxima[r];
    const float per_sum = scale / figures.sums[r];
    const std::int64_t target = figures.targets[r] - rows.first_token;
    for (std::int64_t first = std::int64_t{threadIdx.x} * kSize; first < rows.width;
         first += stride) {
      const Packed<T> chunk = load_chunk<kIsAligned>(row, first, rows.width);
      Chunk<T> gradient;
      // These are places within the chunk; in most chunks neither matters.
      const std::int64_t left = rows.num_valid - first;
      const std::int64_t place = target - first;
      const int count = left < kSize ? static_cast<int>(left) : kSize;
      const int of_target = place >= 0 && place < kSize ? static_cast<int>(place) : kSize;
      for (int j = 0; j < kSize; ++j) {
        const float power = power_of<T>(chunk[j], most);
        const float own = j == of_target ? scale : 0.0F;
        float value = fmaf(power, per_sum, -own);
        if (per_cap > 0.0F) {
          const float of_cap = chunk[j] * per_cap;
          value *= fmaf(-of_cap, of_cap, 1.0F);
        }
        gradient[j] = j < count ? narrow<T>(value) : T{};
      }
      store_chunk<kIsAligned>(gradient, row, first, rows.width);
    }
  }
}

/// Calls issue(T, bool_constant of whether chunks are aligned, grid), unless there are no rows.
template <class Issue>
void for_rows(Buffer logits, const VocabShard& shard, std::int64_t rows, const Issue& issue) {
  if (rows == 0) {
    return;
  }
  visit_working_type(logits.type, [&]<class T>(T type) {
    constexpr int kMostThreads = 512;
    const Grid grid = row_grid(rows, threads_for(num_chunks<T>(shard.width), 1, kMostThreads));
    if (has_aligned_rows<T>(shard.width, elements<T>(logits))) {
      issue(type, std::true_type{}, grid);
    } else {
      issue(type, std::false_type{}, grid);
    }
  });
}

/// The loss of a row: log(sum) − (target's logit − maximum).
struct Loss {
  const float* sums;
  std::int64_t rows;
  __device__ double operator()(std::int64_t row) const {
    return log(static_cast<double>(sums[row])) - static_cast<double>(sums[rows + row]);
  }
};

void row_maxima(const Queue& queue, Buffer logits, const VocabShard& shard, Buffer maxima,
                std::int64_t rows) {
  assert(maxima.size == rows);
  for_rows(logits, shard, rows, [&]<class T, class IsAligned>(T, IsAligned, const Grid& grid) {
    launch(queue.stream, grid, maxima_of_rows<T, IsAligned::value>, rows_of<T>(logits, shard, rows),
           elements<float>(maxima));
  });
}

void softmax_sums(const Queue& queue, Buffer logits, const VocabShard& shard, Buffer targets,
                  Buffer maxima, Buffer sums, std::int64_t rows) {
  assert(maxima.size == rows && sums.size == 2 * rows && targets.size == rows);
  for_rows(logits, shard, rows, [&]<class T, class IsAligned>(T, IsAligned, const Grid& grid) {
    const RowFigures figures{elements<std::int32_t>(targets), elements<float>(maxima),
                             elements<float>(sums)};
    launch(queue.stream, grid, sums_of_rows<T, IsAligned::value>, rows_of<T>(logits, shard, rows),
           figures);
  });
}

void add_losses(const Queue& queue, Buffer sums, Buffer total, std::int64_t rows) {
  assert(sums.size == 2 * rows && total.size == 1);
  const Tensor scratch(queue.memory, DataType::kFloat64, num_parts(rows));
  add_total(queue.stream, Loss{elements<float>(sums), rows}, rows, total, scratch);
}

void cross_entropy_backward(const Queue& queue, const CrossEntropyBackwardCall& call) {
  assert(call.maxima.size == call.rows && call.sums.size == 2 * call.rows &&
         call.targets.size == call.rows);
  for_rows(call.logits, call.shard, call.rows,
           [&]<class T, class IsAligned>(T, IsAligned, const Grid& grid) {
             const RowFigures figures{elements<std::int32_t>(call.targets),
                                      elements<float>(call.maxima), elements<float>(call.sums)};
             launch(queue.stream, grid, gradients_of_rows<T, IsAligned::value>,
                    rows_of<T>(call.logits, call.shard, call.rows), figures,
                    static_cast<float>(call.scale),
                    static_cast<float>(call.soft_cap > 0.0 ? 1.0 / call.soft_cap : 0.0));
           });
}

}  // namespace

void add_cross_entropy_kernels(Kernels& kernels) {
  kernel_of<&Backend::row_maxima>(kernels) = row_maxima;
  kernel_of<&Backend::softmax_sums>(kernels) = softmax_sums;
  kernel_of<&Backend::add_losses>(kernels) = add_losses;
  kernel_of<&Backend::cross_entropy_backward>(kernels) = cross_entropy_backward;
}

}  // namespace ptdp::cuda
