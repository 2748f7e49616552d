// Element types of buffers, and views of memory with an element type.
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ptdp {

/// Type of an element: a floating-point type, or a 32-bit signed integer.
enum class DataType : std::uint8_t { kFloat64, kFloat32, kBFloat16, kFloat16, kInt32 };

/// Returns the size of an element of `type` [B].
[[nodiscard]] constexpr std::int64_t bytes_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return 8;
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kBFloat16:
    case DataType::kFloat16:
      return 2;
  }
  return 0;
}

/// Returns the type in which sums over elements of `type` are formed and kept: f64 for f64, f32 for
/// the others. It holds statistics, gradients, master weights and optimizer states.
[[nodiscard]] constexpr DataType accumulator_of(DataType type) {
  return type == DataType::kFloat64 ? DataType::kFloat64 : DataType::kFloat32;
}

/// Returns the name of a type: "f64", "f32", "bf16", "fp16" or "i32".
[[nodiscard]] constexpr std::string_view name_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return "f64";
    case DataType::kFloat32:
      return "f32";
    case DataType::kBFloat16:
      return "bf16";
    case DataType::kFloat16:
      return "fp16";
    case DataType::kInt32:
      return "i32";
  }
  return "";
}

/// A view of elements in a backend's memory, which it does not own. A buffer of size 0 stands for
/// "none".
struct Buffer {
  void* data = nullptr;
  std::int64_t size = 0;  ///< Number of elements.
  DataType type = DataType::kFloat32;

  /// Returns the size of the elements [B].
  [[nodiscard]] std::int64_t bytes() const { return size * bytes_of(type); }
  [[nodiscard]] bool empty() const { return size == 0; }
  /// Returns a view of `count` elements from `first` on.
  [[nodiscard]] Buffer slice(std::int64_t first, std::int64_t count) const {
    assert(first >= 0 && count >= 0 && first + count <= size);
    return {static_cast<std::byte*>(data) + first * bytes_of(type), count, type};
  }
};

/// Returns the elements of a buffer in host memory. `T` must be the C++ type of its elements.
template <class T>
[[nodiscard]] T* elements(const Buffer& buffer) {
  assert(static_cast<std::int64_t>(sizeof(T)) == bytes_of(buffer.type));
  return static_cast<T*>(buffer.data);
}

}  // namespace ptdp
