// The norm of one vector by a block, whose threads hold the vector or read it again.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/cuda/norms.h"
#include "kernels/cuda/row_chunks.h"

namespace ptdp::cuda {

/// Counts the vectors of a norm. Counted in 64 bits, f32 vectors spill registers on sm_100; counted
/// in 32, 16-bit vectors take more of them on sm_80 and sm_90.
template <class T>
using NormRow = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::int64_t>;

/// Computes the norm of vector number `row`, with its rstd, and the mean if it is wanted. All
/// threads of the block call it. Sums and products are fused only where the code says so, so that
/// alignment changes no bit.
template <int kHeld, bool kIsAligned, class T>
__device__ inline void norm_row(const RowChunks<kHeld, kIsAligned, T>& x, const Norm<T>& norm,
                                const NormShape& shape, NormRow<T> row) {
  constexpr int kSize = kVectorSize<T>;
  const std::int64_t width = shape.width;
  const auto size = static_cast<float>(width);
  float mean = 0.0F;
  if (norm.mean != nullptr) {
    float sum = 0.0F;
    visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
      const Packed<T> chunk = x.at(k, first);
      for (int j = 0; j < kSize; ++j) {
        sum += chunk[j];
      }
    });
    mean = block_sum(sum) / size;
  }
  float squares = 0.0F;
  visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int count) {
    const Packed<T> chunk = x.at(k, first);
    for (int j = 0; j < kSize; ++j) {
      const float centered = j < count ? chunk[j] - mean : 0.0F;
      squares = fmaf(centered, centered, squares);
    }
  });
  const float rstd = 1.0F / sqrtf(block_sum(squares) / size + norm.epsilon);
  visit_chunks<kHeld, kIsAligned, T>(width, [&](int k, std::int64_t first, int) {
    const Packed<T> chunk = x.at(k, first);
    Chunk<T> y;
    const auto gamma = load_chunk<kIsAligned>(norm.gamma, first, width);
    const auto beta = load_beta<kIsAligned>(norm.beta, first, width);
    for (int j = 0; j < kSize; ++j) {
      const float normal = (chunk[j] - mean) * rstd;
      y[j] = narrow<T>(fmaf(normal, gamma[j] + norm.gamma_offset, beta[j]));
    }
    store_chunk<kIsAligned>(y, norm.y.template at<kHeld>(row, shape), first, width);
  });
  if (threadIdx.x == 0) {
    if (norm.mean != nullptr) {
      norm.mean[row] = mean;
    }
    norm.rstd[row] = rstd;
  }
}

/// Returns the arguments of a norm's kernels.
template <class T>
[[nodiscard]] Norm<T> norm_of(const NormCall& call) {
  return {{elements<T>(call.x.elements), call.x.stride},
          elements<T>(call.gamma),
          call.beta.empty() ? nullptr : elements<T>(call.beta),
          {elements<T>(call.y.elements), call.y.stride},
          call.mean.empty() ? nullptr : elements<float>(call.mean),
          elements<float>(call.rstd),
          static_cast<float>(call.epsilon),
          static_cast<float>(call.gamma_offset)};
}

}  // namespace ptdp::cuda
