// Sums down the columns of a matrix.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/variant.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// Number of rows that are summed one by one. The sums of these blocks are then summed, which
/// leaves an error of about (kRowBlock + rows/kRowBlock)·ε instead of rows·ε.
inline constexpr std::int64_t kRowBlock = 64;

/// Sums of the columns of a matrix, which is given in blocks of rows. They keep `width` numbers in
/// `total`, and others in `block` while a block is added, which several sums may share.
template <class Sum>
class ColumnSums {
 public:
  ColumnSums(std::int64_t width, Sum* total, Sum* block)
      : width_(width), total_(total), block_(block) {
    std::fill(total_, total_ + width_, Sum{0});
  }

  /// Adds Σ term(row, c) over rows [first, end) to each column c, in ascending order. There are at
  /// most kRowBlock rows.
  template <class Term>
  void add_block(std::int64_t first, std::int64_t end, const Term& term) {
    for (std::int64_t c = 0; c < width_; ++c) {
      block_[c] = term(first, c);
    }
    for (std::int64_t row = first + 1; row < end; ++row) {
      for (std::int64_t c = 0; c < width_; ++c) {
        block_[c] += term(row, c);
      }
    }
    for (std::int64_t c = 0; c < width_; ++c) {
      total_[c] += block_[c];
    }
  }

  /// Adds the sums to `to` [width].
  void add_to(Sum* to) const {
    for (std::int64_t c = 0; c < width_; ++c) {
      to[c] += total_[c];
    }
  }

 private:
  std::int64_t width_;
  Sum* total_;  ///< Sums of the blocks so far [width].
  Sum* block_;  ///< Sums of the block in work [width].
};

}  // namespace ptdp::PTDP_CPU_VARIANT
