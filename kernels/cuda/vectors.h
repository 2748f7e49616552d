// Walks over a matrix by vectors of its elements, with all threads of a grid.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cuda/element.h"
#include "kernels/cuda/launch.h"

namespace ptdp::cuda {

/// Returns vector number `number` from `from` on, which is aligned to a vector.
template <int kSize, class T>
__device__ inline Vector<T, kSize> load(const T* from, std::int64_t number) {
  assert(reinterpret_cast<std::uintptr_t>(from) % sizeof(Vector<T, kSize>) == 0);
  return reinterpret_cast<const Vector<T, kSize>*>(from)[number];
}
/// Writes vector number `number` from `to` on, which is aligned to a vector.
template <int kSize, class T>
__device__ inline void store(T* to, std::int64_t number, const Vector<T, kSize>& vector) {
  assert(reinterpret_cast<std::uintptr_t>(to) % sizeof(Vector<T, kSize>) == 0);
  reinterpret_cast<Vector<T, kSize>*>(to)[number] = vector;
}

/// Returns all elements in their accumulator type. 16-bit elements are read word by word, so that
/// each takes one instruction.
template <class T, int kSize>
__device__ inline Vector<Accumulator<T>, kSize> widened(const Vector<T, kSize>& vector) {
  Vector<Accumulator<T>, kSize> wide;
  if constexpr (sizeof(T) == 2 && kSize % 2 == 0) {
    for (int i = 0; i < kSize; i += 2) {
      std::uint32_t word = 0;
      std::memcpy(&word, vector.values + i, sizeof(word));
      if constexpr (std::is_same_v<T, BFloat16>) {
        wide[i] = std::bit_cast<float>(word << 16U);
        wide[i + 1] = std::bit_cast<float>(word & 0xFFFF0000U);
      } else {
        wide[i] = widen(T{static_cast<std::uint16_t>(word)});
        wide[i + 1] = widen(T{static_cast<std::uint16_t>(word >> 16U)});
      }
    }
  } else {
    for (int i = 0; i < kSize; ++i) {
      wide[i] = widen(vector[i]);
    }
  }
  return wide;
}

/// Returns x + y element by element, rounded once.
template <class T, int kSize>
__device__ inline Vector<T, kSize> sum_of(const Vector<T, kSize>& x, const Vector<T, kSize>& y) {
  const Vector<Accumulator<T>, kSize> left = widened(x);
  const Vector<Accumulator<T>, kSize> right = widened(y);
  Vector<T, kSize> sum;
  for (int e = 0; e < kSize; ++e) {
    sum[e] = narrow<T>(left[e] + right[e]);
  }
  return sum;
}

/// Number of vectors that a thread reads before it writes the first. Enough bytes are thus in
/// flight even when registers let few threads run.
inline constexpr int kVectorsAtOnce = 2;

/// The place of a vector in a matrix.
struct Place {
  std::int64_t number = 0;   ///< Number of the vector in the whole matrix.
  std::int64_t row = 0;      ///< Row of the vector.
  std::uint32_t column = 0;  ///< Column of the vector [vectors].
};

/// Goes through a matrix in steps of the whole grid, with one division only.
class MatrixWalk {
 public:
  __device__ explicit MatrixWalk(std::uint32_t columns) : columns_(columns) {
    const auto thread = static_cast<std::uint32_t>(first_element());
    const auto step = static_cast<std::uint32_t>(num_threads());
    place_ = {thread, thread / columns, thread % columns};
    row_step_ = step / columns;
    column_step_ = step % columns;
  }

  /// Returns the present place, which may be beyond the end of the matrix.
  __device__ const Place& place() const { return place_; }
  /// Moves on by the number of threads of the grid.
  __device__ void advance() {
    place_.number += num_threads();
    place_.row += row_step_;
    place_.column += column_step_;
    if (place_.column >= columns_) {
      place_.column -= columns_;
      ++place_.row;
    }
  }

 private:
  Place place_;
  std::uint32_t columns_;
  std::uint32_t row_step_ = 0;
  std::uint32_t column_step_ = 0;
};

/// Calls body.finish(place, body.load(place)) for every place of a matrix. What is loaded may be
/// overwritten when it is finished.
template <class Body>
__global__ void __launch_bounds__(kThreads)
    matrix_kernel(Body body, std::int64_t rows, std::uint32_t columns) {
  const std::int64_t count = rows * columns;
  for (MatrixWalk walk(columns); walk.place().number < count;) {
    Place places[kVectorsAtOnce];
    typename Body::Loaded loaded[kVectorsAtOnce];
    // Both loops are unrolled, or nvcc keeps in memory what a long body has loaded.
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < kVectorsAtOnce; ++i, walk.advance()) {
      places[i] = walk.place();
      if (places[i].number < count) {
        loaded[i] = body.load(places[i]);
      }
    }
#ifdef __CUDACC__
#pragma unroll
#endif
    for (int i = 0; i < kVectorsAtOnce; ++i) {
      if (places[i].number < count) {
        body.finish(places[i], loaded[i]);
      }
    }
  }
}

/// Queues a body over a matrix of `rows` rows of `columns` vectors, fewer than 2^31. Throws
/// CudaError.
template <class Body>
void launch_matrix(cudaStream_t stream, const Body& body, std::int64_t rows, std::int64_t columns) {
  const std::int64_t count = rows * columns;
  if (count > 0) {
    assert(columns < (std::int64_t{1} << 31U));
    launch(stream, walking_grid((count + kVectorsAtOnce - 1) / kVectorsAtOnce), matrix_kernel<Body>,
           body, rows, static_cast<std::uint32_t>(columns));
  }
}

/// Calls `function` with the size of the vectors of `T` into which rows of `width` elements can be
/// cut, as an integral_constant. The vectors have 16 bytes or one element.
template <class T, class Function>
void visit_vector_size(std::int64_t width, bool is_aligned, Function&& function) {
  if (is_aligned && width % kVectorSize<T> == 0) {
    function(std::integral_constant<int, kVectorSize<T>>());
  } else {
    function(std::integral_constant<int, 1>());
  }
}

}  // namespace ptdp::cuda
