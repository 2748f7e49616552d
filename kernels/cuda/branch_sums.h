// The sum at the end of a residual branch, element by element: masks of dropout, and what is added.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/counter_random.h"
#include "kernels/cuda/element.h"
#include "kernels/cuda/philox.h"

namespace ptdp::cuda {

/// Which elements are dropped, and the factor of the others, which scales them, too.
struct Mask {
  PhiloxKeys keys = {};
  std::uint32_t threshold = 0;
  float kept = 1.0F;
};

/// Returns the mask of a call.
[[nodiscard]] inline Mask mask_of(const BiasDropoutAddCall& call) {
  return {.keys = philox_keys(call.dropout.key),
          .threshold = dropout_threshold(call.dropout.probability),
          .kept = static_cast<float>(call.scale / (1.0 - call.dropout.probability))};
}

/// Computes the factors of the elements from `first` on, which is a multiple of kSize.
template <int kSize>
__device__ inline void fill_mask(const Mask& mask, std::uint64_t first, float (&factors)[kSize]) {
  if constexpr (kSize == 1) {
    factors[0] = random_word(mask.keys, first) < mask.threshold ? 0.0F : mask.kept;
  } else {
    static_assert(kSize % 4 == 0);
    for (int block = 0; block < kSize / 4; ++block) {
      const PhiloxWords random = philox_words(mask.keys, first / 4 + static_cast<unsigned>(block));
      for (int i = 0; i < 4; ++i) {
        factors[4 * block + i] = random.words[i] < mask.threshold ? 0.0F : mask.kept;
      }
    }
  }
}

/// Returns residual + factor·(x + bias), rounded to `T`. A factor of 1 changes no bit.
template <class T>
__device__ inline T branch_sum(float x, float bias, float residual, float factor) {
  return narrow<T>(fmaf(x + bias, factor, residual));
}

}  // namespace ptdp::cuda
