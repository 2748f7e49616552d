// Philox4x32-10 in its general form of four counter words, written from the paper for comparison:
// Salmon et al., Parallel random numbers: as easy as 1, 2, 3, SC11, section 4.2.
#pragma once

#include <array>
#include <cstdint>

namespace ptdp {

using PhiloxWords = std::array<std::uint32_t, 4>;

inline PhiloxWords philox_reference(PhiloxWords counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t left = counter[0] * 0xD2511F53ULL;
    const std::uint64_t right = counter[2] * 0xCD9E8D57ULL;
    counter = {static_cast<std::uint32_t>(right >> 32U) ^ counter[1] ^ key[0],
               static_cast<std::uint32_t>(right),
               static_cast<std::uint32_t>(left >> 32U) ^ counter[3] ^ key[1],
               static_cast<std::uint32_t>(left)};
    key = {key[0] + 0x9E3779B9U, key[1] + 0xBB67AE85U};
  }
  return counter;
}

/// Returns the word that decides over an element: word (element mod 4) of the block with counter
/// element/4.
inline std::uint32_t word_reference(std::uint64_t key, std::uint64_t element) {
  const std::uint64_t block = element / 4;
  return philox_reference(
      {static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32U), 0, 0},
      {static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32U)})[element % 4];
}

/// Returns 0 if an element is dropped, else 1/(1 − p).
inline double mask_reference(std::uint64_t key, double probability, std::uint64_t element) {
  return word_reference(key, element) < probability * 4294967296.0 ? 0.0
                                                                   : 1.0 / (1.0 - probability);
}

}  // namespace ptdp
