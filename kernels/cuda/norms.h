// What the kernels of norms share: where vectors lie, and how their column sums are added up.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/operations.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {

/// Most threads of a block that takes a vector at a time.
inline constexpr int kMostNormThreads = 1024;

/// The vectors of a norm, `vectors` of them side by side in each row.
struct NormShape {
  std::int64_t count;     ///< Number of all vectors, below 2^31.
  std::int64_t width;     ///< Elements of a vector.
  std::uint32_t vectors;  ///< Vectors of a row.
};

/// Where the vectors of a norm lie.
template <class T>
struct NormVectors {
  T* first;
  std::int64_t stride;  ///< Elements from a row to the next.

  /// Returns the only vector of row number `number`.
  __device__ T* row(std::int64_t number) const { return first + number * stride; }
  /// Returns vector number `number`, counted along the rows.
  __device__ T* vector(std::int64_t number, const NormShape& shape) const {
    const auto whole = static_cast<std::uint32_t>(number);
    return first + whole / shape.vectors * stride + whole % shape.vectors * shape.width;
  }
  /// Returns vector number `number`, the only one of its row if kHeld > 0. Those kernels have no
  /// register to spare.
  template <int kHeld>
  __device__ T* at(std::int64_t number, const NormShape& shape) const {
    return kHeld > 0 ? row(number) : vector(number, shape);
  }
};

/// A norm's forward pass. Without means it is an RMS norm, whose vectors are not centered.
template <class T>
struct Norm {
  NormVectors<const T> x;
  const T* gamma;
  const T* beta;  ///< May be null.
  NormVectors<T> y;
  float* mean;  ///< May be null.
  float* rstd;
  float epsilon;
  float gamma_offset;
};

/// A norm's backward pass.
template <class T>
struct NormGradient {
  NormVectors<const T> dy;
  NormVectors<const T> x;
  const float* mean;  ///< Null for an RMS norm.
  const float* rstd;
  const T* gamma;
  float gamma_offset;
  NormVectors<T> dx;
  const T* added;  ///< What is added to dx, and lies as dx does; may be null.
  bool has_beta;   ///< Whether sums for dbeta are wanted.
  /// Sums over each block's vectors for dgamma, of what is added if that is wanted, and for dbeta
  /// if that is, [sums, blocks, width].
  float* parts;
};

/// Returns what is added to the vector `to` of dx; null if nothing is.
template <class T>
__device__ inline const T* added_to(const NormGradient<T>& norm, const T* to) {
  return norm.added == nullptr ? nullptr : norm.added + (to - norm.dx.first);
}

/// Mean and 1/σ of a vector.
struct Moments {
  float mean;
  float rstd;
};

/// Returns the moments of vector number `number`. The mean is 0 for an RMS norm.
template <class T>
__device__ inline Moments moments_of(const NormGradient<T>& norm, std::int64_t number) {
  return {norm.mean == nullptr ? 0.0F : norm.mean[number], norm.rstd[number]};
}

/// Returns a chunk of beta, or zeros if there is none.
template <bool kIsAligned, class T>
__device__ inline Packed<T> load_beta(const T* beta, std::int64_t first, std::int64_t width) {
  return beta == nullptr ? Packed<T>{} : load_chunk<kIsAligned>(beta, first, width);
}

/// Returns whether the rows of vectors begin at whole chunks, if the first one does.
template <class T>
[[nodiscard]] bool has_chunked_strides(const VectorRows& a, const VectorRows& b) {
  return a.stride % kVectorSize<T> == 0 && b.stride % kVectorSize<T> == 0;
}

/// Returns whether vectors are so short that a warp takes one or several of them (short_norms.cu).
/// Rows of one vector that a layer norm centres keep to a block each, and thus to their bits.
template <class T>
[[nodiscard]] bool are_short(const NormShape& shape, bool is_centered) {
  constexpr std::int64_t most_chunks = std::int64_t{2} * kWarp;
  return num_chunks<T>(shape.width) <= most_chunks && (shape.vectors > 1 || !is_centered);
}

/// Queues the norm of short vectors.
template <class T>
void launch_short_norms(cudaStream_t stream, const Norm<T>& norm, const NormShape& shape,
                        bool is_aligned);
/// Queues the gradients of short vectors, on a grid of `blocks` blocks.
template <class T>
void launch_short_norms_backward(cudaStream_t stream, const NormGradient<T>& norm,
                                 const NormShape& shape, bool is_aligned, std::int64_t blocks);

/// Calls issue(constant of kHeld, bool_constant of kIsAligned, threads) for blocks that take a
/// vector at a time. kHeld is 2 or kMostHeld for aligned, holdable vectors of at most that many
/// chunks per thread, and 0 for all others.
template <class T, int kMostHeld, class Issue>
void for_width(std::int64_t width, bool is_aligned, bool is_holdable, const Issue& issue) {
  // Fewer chunks of a vector leave threads idle, more leave threads out.
  constexpr int chunks_per_thread = 2;
  const std::int64_t chunks = num_chunks<T>(width);
  const int threads = threads_for(chunks, chunks_per_thread, kMostNormThreads);
  if (!is_aligned) {
    issue(std::integral_constant<int, 0>{}, std::false_type{}, threads);
  } else if (is_holdable && chunks <= std::int64_t{2} * threads) {
    issue(std::integral_constant<int, 2>{}, std::true_type{}, threads);
  } else if (is_holdable && chunks <= std::int64_t{kMostHeld} * threads) {
    issue(std::integral_constant<int, kMostHeld>{}, std::true_type{}, threads);
  } else {
    issue(std::integral_constant<int, 0>{}, std::true_type{}, threads);
  }
}

}  // namespace ptdp::cuda
