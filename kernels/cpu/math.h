// Exponentials, sums and maxima that a compiler turns into vector code. A result depends on the
// arguments alone, not on how many elements are computed together.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/cpu/element.h"
#include "kernels/cpu/variant.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// Returns e^x with a relative error below 2e-7. Subnormal results lose bits; beyond them the
/// result is 0 or infinity.
///
///   e^x = 2^n·e^r,  n = x/ln 2 rounded,  |r| <= ln 2 / 2,  e^r by its Taylor series
///
/// ln 2 is split in two so that n·high is exact. Source: Cody & Waite, Software manual for the
/// elementary functions (1980), chapter 6.
[[nodiscard]] inline float exponential(float x) {
  constexpr float rounder = 0x1.8p23F;  // A sum with it loses its fraction.
  const float bounded_below = x < -104.0F ? -104.0F : x;
  const float bounded = bounded_below > 89.0F ? 89.0F : bounded_below;
  const float shifted = bounded * 0x1.715476p+0F + rounder;
  const float n = shifted - rounder;
  const float r = (bounded - n * 0x1.62e4p-1F) - n * 0x1.7f7d1cp-20F;
  float sum = 1.0F / 5040.0F;
  sum = sum * r + 1.0F / 720.0F;
  sum = sum * r + 1.0F / 120.0F;
  sum = sum * r + 1.0F / 24.0F;
  sum = sum * r + 1.0F / 6.0F;
  sum = sum * r + 0.5F;
  sum = sum * r * r + r + 1.0F;
  // 2^n is applied in two factors, since n may lie beyond the exponents of normal numbers.
  const std::uint32_t exponent = std::bit_cast<std::uint32_t>(shifted) - 0x4B400000U;
  const auto half = static_cast<std::uint32_t>(static_cast<std::int32_t>(exponent) >> 1);
  const auto first = std::bit_cast<float>((half + 127U) << 23U);
  const auto second = std::bit_cast<float>((exponent - half + 127U) << 23U);
  return sum * first * second;
}
/// Returns e^x with a relative error below 5e-16. Subnormal results lose bits; beyond them the
/// result is 0 or infinity.
///
///   e^x = 2^n·e^r,  n = x/ln 2 rounded,  |r| <= ln 2 / 2,  e^r by its Taylor series
///
/// ln 2 is split in two so that n·high is exact. Source: Cody & Waite, Software manual for the
/// elementary functions (1980), chapter 6.
[[nodiscard]] inline double exponential(double x) {
  constexpr double rounder = 0x1.8p52;
  const double bounded_below = x < -746.0 ? -746.0 : x;
  const double bounded = bounded_below > 710.0 ? 710.0 : bounded_below;
  const double shifted = bounded * 0x1.71547652b82fep+0 + rounder;
  const double n = shifted - rounder;
  const double r = (bounded - n * 0x1.62e42fefa0000p-1) - n * 0x1.cf79abc9e3b39p-40;
  double sum = 1.0 / 6227020800.0;
  sum = sum * r + 1.0 / 479001600.0;
  sum = sum * r + 1.0 / 39916800.0;
  sum = sum * r + 1.0 / 3628800.0;
  sum = sum * r + 1.0 / 362880.0;
  sum = sum * r + 1.0 / 40320.0;
  sum = sum * r + 1.0 / 5040.0;
  sum = sum * r + 1.0 / 720.0;
  sum = sum * r + 1.0 / 120.0;
  sum = sum * r + 1.0 / 24.0;
  sum = sum * r + 1.0 / 6.0;
  sum = sum * r + 0.5;
  sum = sum * r * r + r + 1.0;
  const std::uint64_t exponent = std::bit_cast<std::uint64_t>(shifted) - 0x4338000000000000U;
  const auto half = static_cast<std::uint64_t>(static_cast<std::int64_t>(exponent) >> 1);
  const auto first = std::bit_cast<double>((half + 1023U) << 52U);
  const auto second = std::bit_cast<double>((exponent - half + 1023U) << 52U);
  return sum * first * second;
}

/// Number of partial sums that are formed side by side. They take 128 bytes with every instruction
/// set, so that a sum does not depend on it.
template <class Sum>
inline constexpr std::int64_t kLanes = 128 / static_cast<std::int64_t>(sizeof(Sum));

/// Returns Σ term(i) over i in [0, n). Term i is added to partial sum i mod kLanes in ascending
/// order, and the partial sums are added in pairs.
template <class Sum, class Term>
[[nodiscard]] inline Sum sum_over(std::int64_t n, const Term& term) {
  constexpr std::int64_t width = kLanes<Sum>;
  std::array<Sum, width> lanes{};
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    for (std::int64_t lane = 0; lane < width; ++lane) {
      lanes.data()[lane] += term(i + lane);
    }
  }
  for (std::int64_t lane = 0; i + lane < n; ++lane) {
    lanes.data()[lane] += term(i + lane);
  }
  for (std::int64_t half = width / 2; half > 0; half /= 2) {
    for (std::int64_t lane = 0; lane < half; ++lane) {
      lanes.data()[lane] += lanes.data()[lane + half];
    }
  }
  return lanes.data()[0];
}

/// Returns the largest term(i) over i in [0, n): −∞ if there is none, NaN if a term is NaN.
template <class Value, class Term>
[[nodiscard]] inline Value maximum_over(std::int64_t n, const Term& term) {
  constexpr std::int64_t width = kLanes<Value>;
  constexpr Value none = -std::numeric_limits<Value>::infinity();
  // NaNs are kept apart, since a comparison with NaN is false.
  std::array<Value, width> lanes{};
  std::array<Value, width> faults{};
  lanes.fill(none);
  const auto take = [&](std::int64_t lane, Value x) {
    lanes.data()[lane] = lanes.data()[lane] > x ? lanes.data()[lane] : x;
    faults.data()[lane] = !is_nan(x) ? faults.data()[lane] : x;
  };
  std::int64_t i = 0;
  for (; i + width <= n; i += width) {
    for (std::int64_t lane = 0; lane < width; ++lane) {
      take(lane, term(i + lane));
    }
  }
  for (std::int64_t lane = 0; i + lane < n; ++lane) {
    take(lane, term(i + lane));
  }
  Value most = none;
  for (std::int64_t lane = 0; lane < width; ++lane) {
    most = lanes.data()[lane] > most ? lanes.data()[lane] : most;
  }
  for (std::int64_t lane = 0; lane < width; ++lane) {
    most = faults.data()[lane] == 0 ? most : faults.data()[lane];
  }
  return most;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
