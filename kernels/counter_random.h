// Random numbers that depend only on a key and the number of an element, alike on hosts and
// devices.
#pragma once

#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

namespace ptdp {

/// Returns four random words for a key and a counter: Philox4x32 with ten rounds. Source: Salmon et
/// al., Parallel random numbers: as easy as 1, 2, 3, SC11.
[[nodiscard]] constexpr std::array<std::uint32_t, 4> philox(std::uint64_t key,
                                                            std::uint64_t counter) {
  std::array<std::uint32_t, 4> x = {static_cast<std::uint32_t>(counter),
                                    static_cast<std::uint32_t>(counter >> 32U), 0, 0};
  auto k0 = static_cast<std::uint32_t>(key);
  auto k1 = static_cast<std::uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53U} * x[0];
    const std::uint64_t b = std::uint64_t{0xCD9E8D57U} * x[2];
    x = {static_cast<std::uint32_t>(b >> 32U) ^ x[1] ^ k0, static_cast<std::uint32_t>(b),
         static_cast<std::uint32_t>(a >> 32U) ^ x[3] ^ k1, static_cast<std::uint32_t>(a)};
    k0 += 0x9E3779B9U;
    k1 += 0xBB67AE85U;
  }
  return x;
}

/// Returns a key for something that has a parent's key and a number: "dropout 2 of layer 5".
[[nodiscard]] constexpr std::uint64_t derived_key(std::uint64_t key, std::uint64_t number) {
  const auto x = philox(key, number);
  return (std::uint64_t{x[0]} << 32U) | x[1];
}

/// Returns the uniform 32-bit word of an element. Four neighboring elements share a block of
/// Philox.
[[nodiscard]] constexpr std::uint32_t random_word(std::uint64_t key, std::uint64_t element) {
  return philox(key, element / 4)[element % 4];
}

/// Returns a uniform number in (0, 1) from 52 bits: the middle of one of 2^52 equal parts, which
/// f64 holds exactly.
[[nodiscard]] constexpr double uniform(std::uint32_t high, std::uint32_t low) {
  const std::uint64_t bits = ((std::uint64_t{high} << 32U) | low) >> 12U;
  return (static_cast<double>(bits) + 0.5) * 0x1p-52;
}

/// Returns the standard normal variate of an element (Box & Muller, 1958).
[[nodiscard]] inline double random_normal(std::uint64_t key, std::uint64_t element) {
  const auto x = philox(key, element);
  return std::sqrt(-2.0 * std::log(uniform(x[0], x[1]))) *
         std::cos(2.0 * std::numbers::pi * uniform(x[2], x[3]));
}

/// Returns the threshold below which a word drops an element: P(word < threshold) = probability, to
/// 2^-32.
[[nodiscard]] constexpr std::uint32_t dropout_threshold(double probability) {
  return static_cast<std::uint32_t>(probability * 0x1p32);
}

}  // namespace ptdp
