// RMS norms of rows that are split over ranks, by sums over whole rows, and products row by row,
// which such sums consist of. Sums and products are fused only where the code says so, so that
// alignment changes no bit.
#include <algorithm>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cuda/column_sums.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"
#include "kernels/cuda/vectors.h"

namespace ptdp::cuda {
namespace {

/// Rows of this rank's columns.
template <class T>
struct Rows {
  T* first;
  std::int64_t stride;  ///< Elements from row to row.

  explicit Rows(const VectorRows& rows)
      : first(elements<std::remove_const_t<T>>(rows.elements)), stride(rows.stride) {}
  __device__ T* row(std::int64_t number) const { return first + number * stride; }
};

/// Returns whether rows of `width` elements can be read and written by 16 bytes.
template <class T>
bool has_whole_vectors(std::int64_t width, const Buffer& columns, const VectorRows& a,
                       const VectorRows& b, const VectorRows& c) {
  return has_aligned_rows<T>(width, elements<T>(columns), elements<T>(a.elements),
                             elements<T>(b.elements), elements<T>(c.elements)) &&
         (a.stride | b.stride | c.stride) % kVectorSize<T> == 0;
}

/// Factors of products row by row.
template <class T>
struct RowFactors {
  Rows<const T> a;
  Rows<const T> b;
  const T* weights;      ///< May be null.
  float weights_offset;  ///< 1 without weights.
};

/// Sums the products of rows, each with a warp.
template <class T, bool kIsAligned>
__global__ void __launch_bounds__(kThreads)
    multiply_rows(RowFactors<T> factors, std::int64_t rows, std::int64_t width, float* sums) {
  constexpr int kSize = kVectorSize<T>;
  const unsigned lane = threadIdx.x % kWarp;
  const std::int64_t step = std::int64_t{gridDim.x} * kRowLanes;
  for (std::int64_t row = std::int64_t{blockIdx.x} * kRowLanes + threadIdx.x / kWarp; row < rows;
       row += step) {
    const T* const a = factors.a.row(row);
    const T* const b = factors.b.row(row);
    float sum = 0.0F;
    for (std::int64_t first = std::int64_t{lane} * kSize; first < width; first += kWarp * kSize) {
      // Beyond the end of the row a is 0.
      const Packed<T> as = load_chunk<kIsAligned>(a, first, width);
      const Packed<T> bs = load_chunk<kIsAligned>(b, first, width);
      const Packed<T> weights = factors.weights == nullptr
                                    ? Packed<T>{}
                                    : load_chunk<kIsAligned>(factors.weights, first, width);
      for (int j = 0; j < kSize; ++j) {
        sum = fmaf(as[j] * (weights[j] + factors.weights_offset), bs[j], sum);
      }
    }
    sum = warp_sum(sum);
    if (lane == 0) {
      sums[row] = sum;
    }
  }
}

void multiply_rows(const Queue& queue, const RowProductsCall& call) {
  assert(call.sums.size == call.rows);
  assert(call.weights.empty() || call.weights.size == call.width);
  if (call.rows == 0) {
    return;
  }
  const std::int64_t blocks = (call.rows + kRowLanes - 1) / kRowLanes;
  const Grid grid{.blocks = static_cast<unsigned>(std::min(blocks, kMostBlocks))};
  visit_working_type(call.a.elements.type, [&]<class T>(T) {
    const bool is_weighted = !call.weights.empty();
    const RowFactors<T> factors{Rows<const T>(call.a), Rows<const T>(call.b),
                                is_weighted ? elements<T>(call.weights) : nullptr,
                                is_weighted ? static_cast<float>(call.weights_offset) : 1.0F};
    const bool is_aligned = has_whole_vectors<T>(
        call.width, is_weighted ? call.weights : call.a.elements, call.a, call.b, call.b);
    launch(queue.stream, grid, is_aligned ? multiply_rows<T, true> : multiply_rows<T, false>,
           factors, call.rows, call.width, elements<float>(call.sums));
  });
}

/// Norms a vector of a row's columns.
template <class T, int kSize>
struct SplitNormBody {
  Rows<const T> x;
  Rows<T> y;
  const T* gamma;
  const float* squares;
  float* rstd;
  float whole_width;
  float epsilon;
  float gamma_offset;

  struct Loaded {
    Vector<T, kSize> x;
    Vector<T, kSize> gamma;
    float squares;
  };

  __device__ Loaded load(const Place& place) const {
    return {cuda::load<kSize>(x.row(place.row), place.column),
            cuda::load<kSize>(gamma, place.column), squares[place.row]};
  }
  __device__ void finish(const Place& place, const Loaded& loaded) const {
    const float root = 1.0F / sqrtf(loaded.squares / whole_width + epsilon);
    const Vector<float, kSize> xs = widened(loaded.x);
    const Vector<float, kSize> gammas = widened(loaded.gamma);
    Vector<T, kSize> result;
    for (int e = 0; e < kSize; ++e) {
      result[e] = narrow<T>(xs[e] * root * (gammas[e] + gamma_offset));
    }
    store<kSize>(y.row(place.row), place.column, result);
    if (place.column == 0) {
      rstd[place.row] = root;
    }
  }
};

void norm_split_rows(const Queue& queue, const SplitNormCall& call) {
  const std::int64_t width = call.gamma.size;
  assert(call.squares.size == call.rows && call.rstd.size == call.rows);
  visit_working_type(call.gamma.type, [&]<class T>(T) {
    const bool is_aligned = has_whole_vectors<T>(width, call.gamma, call.x, call.y, call.y);
    visit_vector_size<T>(width, is_aligned, [&]<int kSize>(std::integral_constant<int, kSize>) {
      const SplitNormBody<T, kSize> body{Rows<const T>(call.x),
                                         Rows<T>(call.y),
                                         elements<T>(call.gamma),
                                         elements<float>(call.squares),
                                         elements<float>(call.rstd),
                                         static_cast<float>(call.whole_width),
                                         static_cast<float>(call.epsilon),
                                         static_cast<float>(call.gamma_offset)};
      launch_matrix(queue.stream, body, call.rows, width / kSize);
    });
  });
}

/// The backward pass of a norm of split rows.
template <class T>
struct SplitNormGradient {
  Rows<const T> dy;
  Rows<const T> x;
  Rows<T> dx;
  const T* gamma;
  const float* rstd;
  const float* products;
  float whole_width;
  float gamma_offset;
};

/// Computes the gradients of a chunk of rows, and the sums over them for dgamma,
/// sums[chunk, width]. The threads of a warp have neighboring vectors of columns, each for itself,
/// so dx may be x or dy.
template <class T, int kSize>
__global__ void __launch_bounds__(kThreads)
    split_norm_gradients(SplitNormGradient<T> norm, std::int64_t rows, std::int64_t width,
                         std::int64_t rows_each, float* sums) {
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t column = (std::int64_t{blockIdx.x} * kWarp + lane) * kSize;
  const std::int64_t first_row = std::int64_t{blockIdx.y} * rows_each;
  const std::int64_t end = first_row + rows_each < rows ? first_row + rows_each : rows;
  float total[kSize] = {};
  if (column < width) {
    const Vector<float, kSize> gammas = widened(load<kSize>(norm.gamma + column, 0));
    for (std::int64_t row = first_row + warp; row < end; row += kRowLanes) {
      const Vector<float, kSize> dys = widened(load<kSize>(norm.dy.row(row) + column, 0));
      const Vector<float, kSize> xs = widened(load<kSize>(norm.x.row(row) + column, 0));
      const float rstd = norm.rstd[row];
      const float of_normal = norm.products[row] * rstd / norm.whole_width;
      Vector<T, kSize> dx;
      for (int e = 0; e < kSize; ++e) {
        const float normal = xs[e] * rstd;
        const float gamma = gammas[e] + norm.gamma_offset;
        dx[e] = narrow<T>(rstd * fmaf(-normal, of_normal, dys[e] * gamma));
        total[e] = fmaf(dys[e], normal, total[e]);
      }
      if constexpr (kSize > 1) {
        store_chunk</*kIsAligned=*/true>(dx, norm.dx.row(row), column, width);
      } else {
        store<kSize>(norm.dx.row(row) + column, 0, dx);
      }
    }
  }
  write_chunk_sums<kSize>(total, width, sums);
}

void split_norm_backward(const Queue& queue, const SplitNormBackwardCall& call) {
  const std::int64_t width = call.gamma.size;
  assert(call.rstd.size == call.rows && call.products.size == call.rows);
  assert(call.dgamma.size == width);
  if (call.rows * width == 0) {
    return;
  }
  const SumChunks chunks = sum_chunks(call.rows, width);
  const Tensor scratch(queue.memory, call.dgamma.type, chunks.count * width);
  auto* const sums = elements<float>(scratch.buffer());
  visit_working_type(call.gamma.type, [&]<class T>(T) {
    const SplitNormGradient<T> norm{Rows<const T>(call.dy),
                                    Rows<const T>(call.x),
                                    Rows<T>(call.dx),
                                    elements<T>(call.gamma),
                                    elements<float>(call.rstd),
                                    elements<float>(call.products),
                                    static_cast<float>(call.whole_width),
                                    static_cast<float>(call.gamma_offset)};
    const bool is_aligned = has_whole_vectors<T>(width, call.gamma, call.dy, call.x, call.dx);
    visit_vector_size<T>(width, is_aligned, [&]<int kSize>(std::integral_constant<int, kSize>) {
      launch(queue.stream, grid_of_chunks<kSize>(chunks, width), split_norm_gradients<T, kSize>,
             norm, call.rows, width, chunks.rows_each, sums);
    });
  });
  add_chunk_sums(queue.stream, sums, chunks, width, elements<float>(call.dgamma));
}

}  // namespace

void add_split_norm_kernels(Kernels& kernels) {
  kernel_of<&Backend::row_products>(kernels) = multiply_rows;
  kernel_of<&Backend::split_norm>(kernels) = norm_split_rows;
  kernel_of<&Backend::split_norm_backward>(kernels) = split_norm_backward;
}

}  // namespace ptdp::cuda
