// Where the vectors of attention lie in memory, and the scratch that a tile needs.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cpu/math.h"
#include "kernels/cpu/packed_product.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// Number of queries and of keys of a tile: a multiple of every panel's rows and columns.
inline constexpr std::int64_t kTile = 96;

/// Vectors of one head of one sequence, by position.
template <class T>
struct HeadRows {
  /// Locates head number `head` of sequence number `sample` among `batch`.
  HeadRows(const VectorRows& rows, std::int64_t batch, std::int64_t sample, std::int64_t head,
           std::int64_t head_size)
      : data(elements<T>(rows.elements) + sample * rows.stride + head * head_size),
        stride(batch * rows.stride) {}

  /// Returns the vectors of positions from `first` on, as rows of a matrix.
  [[nodiscard]] MatrixView<T> from(std::int64_t first) const {
    return {data + first * stride, stride, 1};
  }
  /// Returns the vector of a position.
  [[nodiscard]] T* at(std::int64_t position) const { return data + position * stride; }

  T* data;              ///< Vector of position 0.
  std::int64_t stride;  ///< Elements between positions.
};

/// One query head of one sequence, number `place` among the query heads of all sequences.
struct HeadPlace {
  HeadPlace(const Attention& shape, std::int64_t place)
      : sample(place / shape.heads),
        head(place % shape.heads),
        key_head(head / (shape.heads / shape.key_heads)),
        first_probability(
            (((shape.first_sample + sample) * shape.total_heads + shape.first_head + head) *
             shape.seq_length) *
            shape.seq_length) {}

  /// Returns the vectors of this query head.
  template <class T>
  [[nodiscard]] HeadRows<T> queries(const Attention& shape, const VectorRows& rows) const {
    return {rows, shape.batch, sample, head, shape.head_size};
  }
  /// Returns the vectors of the key head that belongs to this query head.
  template <class T>
  [[nodiscard]] HeadRows<T> keys(const Attention& shape, const VectorRows& rows) const {
    return {rows, shape.batch, sample, key_head, shape.head_size};
  }

  std::int64_t sample;    ///< Number of the sequence within the batch.
  std::int64_t head;      ///< Number of the query head on this rank.
  std::int64_t key_head;  ///< Number of its key head on this rank.
  /// Number, for dropout, of the probability of query 0 and key 0.
  std::int64_t first_probability;
};

/// Returns the rows of attention's output, [s, b, heads, d].
[[nodiscard]] inline VectorRows output_rows(const Attention& shape, Buffer out) {
  return {out, shape.heads * shape.head_size};
}

/// Returns the first key that a query sees.
[[nodiscard]] inline std::int64_t first_seen(const Attention& shape, std::int64_t query) {
  return shape.window > 0 && query >= shape.window ? query - shape.window + 1 : 0;
}
/// Returns the first key of the first tile that any query from `query` on sees.
[[nodiscard]] inline std::int64_t first_tile_seen(const Attention& shape, std::int64_t query) {
  return first_seen(shape, query) / kTile * kTile;
}
/// Returns the end of the queries that see any of the keys in front of `end_of_keys`.
[[nodiscard]] inline std::int64_t end_of_queries(const Attention& shape, std::int64_t end_of_keys) {
  const std::int64_t s = shape.seq_length;
  return shape.window > 0 ? std::min(s, end_of_keys - 1 + shape.window) : s;
}

/// Multiplies packed operands as multiply_packed() does. In a tile on the diagonal, A is
/// triangular: row i is zero behind column i if it is lower, else before it. Chains of
/// multiply-adds are then those that a row panel needs.
template <bool kIsLower, class Sum>
void multiply_tile(bool is_diagonal, std::int64_t m, std::int64_t n, std::int64_t k, const Sum* a,
                   const Sum* b, bool accumulates, Sum* c, std::int64_t stride) {
  if (!is_diagonal) {
    multiply_packed(m, n, k, a, b, accumulates, c, stride);
    return;
  }
  constexpr std::int64_t width = kPanelColumns<Sum>;
  for (std::int64_t j = 0; j < n; j += width) {
    for (std::int64_t i = 0; i < m; i += kPanelRows) {
      const std::int64_t first = kIsLower ? 0 : i;
      const std::int64_t end = kIsLower ? std::min(k, i + kPanelRows) : k;
      multiply_packed(std::min(kPanelRows, m - i), std::min(width, n - j), end - first,
                      a + i * k + first * kPanelRows, b + j * k + first * width, accumulates,
                      c + i * stride + j, stride);
    }
  }
}

/// Returns cap·tanh(x/cap), with an error of a few roundings of the result.
template <class Sum>
[[nodiscard]] inline Sum capped(Sum x, Sum cap) {
  const Sum u = x / cap;
  const Sum square = u * u;
  // Lambert's continued fraction of tanh, cut after its seventh part, is exact to f64 for |u| <
  // 1/2.
  const Sum near = x * (135135 + square * (17325 + square * (378 + square))) /
                   (135135 + square * (62370 + square * (3150 + square * 28)));
  // tanh u = 1 − 2/(e^(2u) + 1) is exact at both ends, but cancels near 0.
  const Sum far = cap - 2 * cap / (exponential(2 * u) + 1);
  return square < static_cast<Sum>(0.25) ? near : far;
}

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
