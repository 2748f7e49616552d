// Vectors as wide as the registers of the instruction set that a source is compiled for.
#pragma once

#include <cstdint>
#include <cstring>

#include "kernels/cpu/variant.h"

namespace ptdp::PTDP_CPU_VARIANT {

// Sizes of the vector registers [B], and how many registers there are.
#if defined(__AVX512F__)
inline constexpr std::int64_t kVectorBytes = 64;
inline constexpr std::int64_t kVectorRegisters = 32;
#elif defined(__AVX__)
inline constexpr std::int64_t kVectorBytes = 32;
inline constexpr std::int64_t kVectorRegisters = 16;
#elif defined(__aarch64__)
inline constexpr std::int64_t kVectorBytes = 16;
inline constexpr std::int64_t kVectorRegisters = 32;
#else
inline constexpr std::int64_t kVectorBytes = 16;
inline constexpr std::int64_t kVectorRegisters = 16;
#endif

/// A vector register of kLength numbers. Arithmetic is element by element, also with scalars.
template <class Number>
struct VectorOf {
  static constexpr std::int64_t kLength = kVectorBytes / static_cast<std::int64_t>(sizeof(Number));
  using Type __attribute__((vector_size(kVectorBytes))) = Number;
};
/// A vector of numbers, as wide as a register.
template <class Number>
using Vector = typename VectorOf<Number>::Type;

/// Returns a vector of the numbers from `from` on, which may have any alignment.
template <class Number>
[[nodiscard]] inline Vector<Number> load_vector(const Number* from) {
  Vector<Number> vector;
  std::memcpy(&vector, from, sizeof(vector));
  return vector;
}
/// Writes a vector to memory of any alignment.
template <class Number>
inline void store_vector(const Vector<Number>& vector, Number* to) {
  std::memcpy(to, &vector, sizeof(vector));
}

/// A vector of four numbers: four of these make a square.
template <class Number>
struct SquareOf {
  static constexpr std::int64_t kSize = 4;
  using Row __attribute__((vector_size(4 * sizeof(Number)))) = Number;
};

/// Writes the transpose of a 4 × 4 square. Rows lie `from_stride` and `to_stride` numbers apart.
template <class Number>
inline void transpose_square(const Number* from, std::int64_t from_stride, Number* to,
                             std::int64_t to_stride) {
  using Row = typename SquareOf<Number>::Row;
  Row a;
  Row b;
  Row c;
  Row d;
  std::memcpy(&a, from, sizeof(Row));
  std::memcpy(&b, from + from_stride, sizeof(Row));
  std::memcpy(&c, from + 2 * from_stride, sizeof(Row));
  std::memcpy(&d, from + 3 * from_stride, sizeof(Row));
  const Row ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
  const Row ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
  const Row cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
  const Row cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
  const Row first = __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5);
  const Row second = __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7);
  const Row third = __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5);
  const Row fourth = __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7);
  std::memcpy(to, &first, sizeof(Row));
  std::memcpy(to + to_stride, &second, sizeof(Row));
  std::memcpy(to + 2 * to_stride, &third, sizeof(Row));
  std::memcpy(to + 3 * to_stride, &fourth, sizeof(Row));
}

}  // namespace ptdp::PTDP_CPU_VARIANT
