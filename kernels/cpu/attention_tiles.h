// Where the vectors of attention lie in memory, and the scratch that a tile needs.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/packed_product.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// Number of queries and of keys of a tile: a multiple of every panel's rows and columns.
inline constexpr std::int64_t kTile = 96;

/// One head of one sequence, number `place` among the heads of all sequences. It locates the head's
/// vectors in qkv [s, b, heads, 3, d] and out [s, b, heads, d].
struct HeadLayout {
  HeadLayout(const Attention& shape, std::int64_t place)
      : d(shape.head_size),
        qkv_stride(shape.batch * shape.heads * 3 * d),
        out_stride(shape.batch * shape.heads * d),
        first_qkv(place * 3 * d),
        first_out(place * d),
        first_probability((((shape.first_sample + place / shape.heads) * shape.total_heads +
                            shape.first_head + place % shape.heads) *
                           shape.seq_length) *
                          shape.seq_length) {}

  /// Returns the vectors `which` (0: queries, 1: keys, 2: values) of positions from `first` on, as
  /// rows.
  template <class T>
  [[nodiscard]] MatrixView<T> rows_of_qkv(const T* qkv, std::int64_t which,
                                          std::int64_t first) const {
    return {qkv + first_qkv + which * d + first * qkv_stride, qkv_stride, 1};
  }
  /// Returns the vectors in out of positions from `first` on, as rows.
  template <class T>
  [[nodiscard]] MatrixView<T> rows_of_out(const T* out, std::int64_t first) const {
    return {out + first_out + first * out_stride, out_stride, 1};
  }

  std::int64_t d;           ///< Size of a head.
  std::int64_t qkv_stride;  ///< Elements between positions in qkv.
  std::int64_t out_stride;  ///< Elements between positions in out.
  std::int64_t first_qkv;   ///< Offset in qkv of the query of position 0.
  std::int64_t first_out;   ///< Offset in out of position 0.
  /// Number, for dropout, of the probability of query 0 and key 0.
  std::int64_t first_probability;
};

/// Hands out parts of a scratch buffer, each at a multiple of 16 numbers (64 bytes of f32).
class ScratchParts {
 public:
  /// Returns the offset of a new part of `size` numbers.
  [[nodiscard]] std::int64_t take(std::int64_t size) {
    const std::int64_t first = size_;
    size_ += round_up(size, 16);
    return first;
  }
  /// Returns the size of all parts [numbers].
  [[nodiscard]] std::int64_t size() const { return size_; }

 private:
  std::int64_t size_ = 0;
};

}  // namespace ptdp::PTDP_CPU_VARIANT
