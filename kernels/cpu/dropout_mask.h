// Dropout masks from the numbers of elements.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/counter_random.h"
#include "kernels/cpu/variant.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// Number of Philox blocks that are computed side by side, one in each lane of a vector.
inline constexpr std::int64_t kPhiloxBlocks = 32;
using PhiloxWords = std::array<std::uint32_t, 4 * kPhiloxBlocks>;  ///< Four words of each block.

/// Computes the words of the Philox blocks with counters first, first + 1, ...; equal to philox()
/// of counter_random.h.
inline void fill_words(std::uint64_t key, std::uint64_t first, PhiloxWords& words) {
  std::uint32_t* const to = words.data();
  for (std::int64_t block = 0; block < kPhiloxBlocks; ++block) {
    const std::uint64_t counter = first + static_cast<std::uint64_t>(block);
    auto x0 = static_cast<std::uint32_t>(counter);
    auto x1 = static_cast<std::uint32_t>(counter >> 32U);
    std::uint32_t x2 = 0;
    std::uint32_t x3 = 0;
    auto k0 = static_cast<std::uint32_t>(key);
    auto k1 = static_cast<std::uint32_t>(key >> 32U);
#pragma GCC unroll 10
    for (int round = 0; round < 10; ++round) {
      const std::uint64_t a = std::uint64_t{0xD2511F53U} * x0;
      const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * x2;
      x0 = static_cast<std::uint32_t>(b >> 32U) ^ x1 ^ k0;
      x1 = static_cast<std::uint32_t>(b);
      x2 = static_cast<std::uint32_t>(a >> 32U) ^ x3 ^ k1;
      x3 = static_cast<std::uint32_t>(a);
      k0 += 0x9E3779B9U;
      k1 += 0xBB67AE85U;
    }
    to[4 * block] = x0;
    to[4 * block + 1] = x1;
    to[4 * block + 2] = x2;
    to[4 * block + 3] = x3;
  }
}

/// Computes a mask: mask[i] = 0 when element first + i is dropped, and scale/(1 − p) otherwise.
template <class Sum>
inline void fill_mask(const Dropout& dropout, std::uint64_t first, std::int64_t size, Sum* mask,
                      double scale = 1.0) {
  const auto kept = static_cast<Sum>(scale / (1.0 - dropout.probability));
  const std::uint32_t threshold = dropout_threshold(dropout.probability);
  PhiloxWords words;
  // Words of the first block that precede the first element.
  auto skipped = static_cast<std::int64_t>(first % 4);
  for (std::int64_t i = 0; i < size;) {
    fill_words(dropout.key, (first + static_cast<std::uint64_t>(i)) / 4, words);
    const std::int64_t count = std::min(4 * kPhiloxBlocks - skipped, size - i);
    const std::uint32_t* const word = words.data() + skipped;
    for (std::int64_t c = 0; c < count; ++c) {
      mask[i + c] = word[c] < threshold ? Sum{0} : kept;
    }
    i += count;
    skipped = 0;
  }
}

}  // namespace ptdp::PTDP_CPU_VARIANT
