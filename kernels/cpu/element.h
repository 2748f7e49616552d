// Elements of the four working types on a host: their types, and how they are read and rounded.
#pragma once

#include <bit>
#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/cpu/variant.h"
#include "kernels/data_type.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// A bf16 number: the upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

/// An fp16 number: IEEE 754 binary16.
struct Float16 {
  std::uint16_t bits;
};

/// The type in which sums over elements of `T` are formed, as accumulator_of() says.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Returns x, the accumulator of an f64.
[[nodiscard]] inline double widen(double x) {
  return x;
}
/// Returns x, the accumulator of an f32.
[[nodiscard]] inline float widen(float x) {
  return x;
}
/// Returns a bf16 number as an f32, exactly.
[[nodiscard]] inline float widen(BFloat16 x) {
  return std::bit_cast<float>(std::uint32_t{x.bits} << 16U);
}
/// Returns an fp16 number as an f32, exactly.
[[nodiscard]] inline float widen(Float16 x) {
  const std::uint32_t magnitude = x.bits & 0x7FFFU;
  const std::uint32_t sign = std::uint32_t{x.bits & 0x8000U} << 16U;
  // A subnormal m·2^-24 is the difference of 2^-14 + m·2^-24 and 2^-14.
  const float subnormal = std::bit_cast<float>(0x38800000U | (magnitude << 13U)) - 0x1p-14F;
  const std::uint32_t normal = (magnitude << 13U) + (112U << 23U);
  const std::uint32_t finite =
      magnitude < 0x0400U ? std::bit_cast<std::uint32_t>(subnormal) : normal;
  return std::bit_cast<float>(sign | (magnitude >= 0x7C00U ? finite + (112U << 23U) : finite));
}

/// Returns whether x is NaN.
template <class Value>
[[nodiscard]] inline bool is_nan(Value x) {
  if constexpr (std::is_integral_v<Value>) {
    return false;
  } else {
    return __builtin_isnan(x) != 0;
  }
}

/// Returns an f32 near x whose last bit is odd unless it equals x. Rounding it again to fewer bits
/// rounds x only once. Source: Boldo & Melquiond, Emulation of FMA and correctly rounded sums, IEEE
/// TC 2008.
[[nodiscard]] inline float round_to_odd(double x) {
  const auto nearest = static_cast<float>(x);
  const auto back = static_cast<double>(nearest);
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  const bool is_larger = (back < 0 ? -back : back) > (x < 0 ? -x : x);
  bits -= is_larger ? 1U : 0U;
  bits |= back == x || is_nan(x) ? 0U : 1U;
  return std::bit_cast<float>(bits);
}

/// Returns x in type `T`, rounded to nearest even.
template <class T>
[[nodiscard]] inline T narrow(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
  if constexpr (std::is_same_v<T, BFloat16>) {
    const std::uint32_t rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
    const std::uint32_t kept = magnitude > 0x7F800000U ? bits | 0x00400000U : rounded;
    return {static_cast<std::uint16_t>(kept >> 16U)};
  } else if constexpr (std::is_same_v<T, Float16>) {
    const std::uint32_t sign = (bits >> 16U) & 0x8000U;
    const std::uint32_t normal =
        (magnitude + 0xFFFU + ((magnitude >> 13U) & 1U) - (112U << 23U)) >> 13U;
    // Next to 0.5, whose last bit is 2^-24, the addition rounds to multiples of 2^-24.
    const std::uint32_t subnormal =
        std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) + 0.5F) - 0x3F000000U;
    const std::uint32_t finite = magnitude < 0x38800000U ? subnormal : normal;
    const std::uint32_t bounded = magnitude >= 0x47800000U ? 0x7C00U : finite;
    const std::uint32_t rounded = magnitude > 0x7F800000U ? 0x7E00U : bounded;
    return {static_cast<std::uint16_t>(sign | rounded)};
  } else {
    return static_cast<T>(x);
  }
}
/// Returns x in type `T`, rounded to nearest even once, not by way of a rounded f32.
template <class T>
[[nodiscard]] inline T narrow(double x) {
  if constexpr (sizeof(T) == 2) {
    return narrow<T>(round_to_odd(x));
  } else {
    return static_cast<T>(x);
  }
}

/// Calls `function` with a value of the C++ type of a working type. `type` must not be kInt32.
template <class Function>
inline void visit_element_type(DataType type, Function&& function) {
  switch (type) {
    case DataType::kFloat64:
      function(double{});
      return;
    case DataType::kFloat32:
      function(float{});
      return;
    case DataType::kBFloat16:
      function(BFloat16{});
      return;
    case DataType::kFloat16:
      function(Float16{});
      return;
    case DataType::kInt32:
      assert(false && "not a working type");
      return;
  }
}

}  // namespace ptdp::PTDP_CPU_VARIANT
