// Sums over many elements in f64: one kernel leaves a part per block, another adds the parts.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/launch.h"
#include "kernels/data_type.h"

namespace ptdp::cuda {

/// Number of elements that a thread reads before it needs the first.
inline constexpr int kTermsAtOnce = 4;

/// Returns the number of blocks that sum `size` elements, each leaving one part.
[[nodiscard]] inline std::int64_t num_parts(std::int64_t size) {
  constexpr std::int64_t most_parts = 1024;
  constexpr std::int64_t of_block = std::int64_t{kThreads} * kTermsAtOnce;
  return std::clamp<std::int64_t>((size + of_block - 1) / of_block, 1, most_parts);
}

/// Writes this block's part of Σ term(i) over i in [0, size) to `parts`.
template <class Term>
__global__ void sum_part(Term term, std::int64_t size, double* parts) {
  double sums[kTermsAtOnce] = {};
  const std::int64_t stride = num_threads();
  std::int64_t i = first_element();
  for (; i + (kTermsAtOnce - 1) * stride < size; i += kTermsAtOnce * stride) {
    for (int k = 0; k < kTermsAtOnce; ++k) {
      sums[k] += term(i + k * stride);
    }
  }
  for (; i < size; i += stride) {
    sums[0] += term(i);
  }
  const double sum = block_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = sum;
  }
}

/// Queues total += Σ parts (in optimizer.cu).
void add_parts(cudaStream_t stream, const double* parts, std::int64_t count, Buffer total);

/// Queues total += Σ term(i) over i in [0, size); term(i) is an f64. `parts` has num_parts(size)
/// elements.
template <class Term>
void add_total(cudaStream_t stream, const Term& term, std::int64_t size, Buffer total,
               Buffer parts) {
  if (size == 0) {
    return;
  }
  const std::int64_t count = num_parts(size);
  launch(stream, Grid{.blocks = static_cast<unsigned>(count)}, sum_part<Term>, term, size,
         elements<double>(parts));
  add_parts(stream, elements<double>(parts), count, total);
}

}  // namespace ptdp::cuda
