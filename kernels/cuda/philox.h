// Random numbers by number on a GPU: the words of kernels/counter_random.h, held in registers.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace ptdp::cuda {

/// The four random words of a counter.
struct PhiloxWords {
  std::uint32_t words[4];
};

/// The keys of Philox's ten rounds. As an argument of a kernel they cost no instruction.
struct PhiloxKeys {
  std::uint32_t low[10];
  std::uint32_t high[10];
};

/// Returns the keys of ten rounds for a key.
__host__ __device__ inline PhiloxKeys philox_keys(std::uint64_t key) {
  PhiloxKeys keys{};
  for (std::uint32_t round = 0; round < 10; ++round) {
    keys.low[round] = static_cast<std::uint32_t>(key) + round * 0x9E3779B9U;
    keys.high[round] = static_cast<std::uint32_t>(key >> 32U) + round * 0xBB67AE85U;
  }
  return keys;
}

/// Returns the words of a counter, as ptdp::philox does: Philox4x32 with ten rounds.
__device__ inline PhiloxWords philox_words(const PhiloxKeys& keys, std::uint64_t counter) {
  std::uint32_t x0 = static_cast<std::uint32_t>(counter);
  std::uint32_t x1 = static_cast<std::uint32_t>(counter >> 32U);
  std::uint32_t x2 = 0;
  std::uint32_t x3 = 0;
#ifdef __CUDACC__
#pragma unroll
#endif
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * x0;
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * x2;
    x0 = static_cast<std::uint32_t>(b >> 32U) ^ x1 ^ keys.low[round];
    x1 = static_cast<std::uint32_t>(b);
    x2 = static_cast<std::uint32_t>(a >> 32U) ^ x3 ^ keys.high[round];
    x3 = static_cast<std::uint32_t>(a);
  }
  return {{x0, x1, x2, x3}};
}
/// Returns the words of a counter, as ptdp::philox does: Philox4x32 with ten rounds.
__device__ inline PhiloxWords philox_words(std::uint64_t key, std::uint64_t counter) {
  return philox_words(philox_keys(key), counter);
}

/// Returns the uniform word of an element, as ptdp::random_word does. Four neighboring elements
/// share the words of a counter.
__device__ inline std::uint32_t random_word(const PhiloxKeys& keys, std::uint64_t element) {
  const PhiloxWords words = philox_words(keys, element / 4);
  const std::uint32_t low = element % 2 == 0 ? words.words[0] : words.words[1];
  const std::uint32_t high = element % 2 == 0 ? words.words[2] : words.words[3];
  return element % 4 < 2 ? low : high;
}
/// Returns the uniform word of an element, as ptdp::random_word does. Four neighboring elements
/// share the words of a counter.
__device__ inline std::uint32_t random_word(std::uint64_t key, std::uint64_t element) {
  return random_word(philox_keys(key), element);
}

}  // namespace ptdp::cuda
