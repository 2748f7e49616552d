// Uses vectors as buffers in tests.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/data_type.h"

namespace ptdp {

/// A bfloat16, rounded to nearest even.
struct BFloat16 {
  std::uint16_t bits = 0;

  BFloat16() = default;
  explicit BFloat16(float value) {
    const auto wide = std::bit_cast<std::uint32_t>(value);
    bits = std::isnan(value) ? 0x7fc0
                             : static_cast<std::uint16_t>((wide + 0x7fff + (wide >> 16 & 1)) >> 16);
  }
  explicit operator float() const { return std::bit_cast<float>(std::uint32_t{bits} << 16); }
  explicit operator double() const { return static_cast<float>(*this); }
};

/// Returns the elements of a vector as a buffer, which borrows them.
template <class T>
[[nodiscard]] Buffer buffer_of(std::vector<T>& values);

template <>
inline Buffer buffer_of(std::vector<double>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), DataType::kFloat64};
}
template <>
inline Buffer buffer_of(std::vector<float>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), DataType::kFloat32};
}
template <>
inline Buffer buffer_of(std::vector<BFloat16>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), DataType::kBFloat16};
}
template <>
inline Buffer buffer_of(std::vector<std::int32_t>& values) {
  return {values.data(), static_cast<std::int64_t>(values.size()), DataType::kInt32};
}

}  // namespace ptdp
