// Products of small blocks of matrices, which are first copied into the order in which the
// innermost loop reads them. Sources: Goto & van de Geijn, Anatomy of high-performance matrix
// multiplication, ACM TOMS 34(3), 2008; Van Zee & van de Geijn, BLIS, ACM TOMS 41(3), 2015.
//
// Every element of a product is one chain of multiply-adds over ascending k, then one addition to
// what is there. Its bits thus depend only on its row of A, its column of B and k, not on the size
// of the matrices or its place in them.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/vector.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// A view of a matrix in memory, with elements [row·row_stride + column·column_stride]. One stride
/// must be 1 for fast reads.
template <class T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;

  /// Returns a view that begins at (row, column).
  [[nodiscard]] MatrixView block(std::int64_t row, std::int64_t column) const {
    return {data + row * row_stride + column * column_stride, row_stride, column_stride};
  }
  /// Returns a view of the transpose.
  [[nodiscard]] MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

/// Rows of C that the innermost loop keeps in registers.
inline constexpr std::int64_t kPanelRows = kVectorRegisters == 32 ? 12 : 6;
/// Columns of C that the innermost loop keeps in registers.
template <class Sum>
inline constexpr std::int64_t kPanelColumns = 2 * VectorOf<Sum>::kLength;

/// Returns the smallest multiple of `multiple` that is at least `size`.
[[nodiscard]] constexpr std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}
/// Returns the size of a packed A [m, k] [numbers].
template <class Sum>
[[nodiscard]] constexpr std::int64_t packed_rows_size(std::int64_t m, std::int64_t k) {
  return round_up(round_up(m, kPanelRows) * k, kPanelColumns<Sum>);
}
/// Returns the size of a packed B [k, n] [numbers].
template <class Sum>
[[nodiscard]] constexpr std::int64_t packed_columns_size(std::int64_t k, std::int64_t n) {
  return round_up(n, kPanelColumns<Sum>) * k;
}

/// Packs A[m, k] as panels of kPanelRows rows, each panel column by column. Missing rows become 0.
template <class T>
void pack_rows(const MatrixView<T>& a, std::int64_t m, std::int64_t k, Accumulator<T>* to);
/// Packs B[k, n] as panels of kPanelColumns columns, each panel row by row. Missing columns become
/// 0.
template <class T>
void pack_columns(const MatrixView<T>& b, std::int64_t k, std::int64_t n, Accumulator<T>* to);

/// Computes C[m, n] = A·B or C += A·B from packed operands, with rows of C `stride` apart. `b`
/// begins at a multiple of a vector.
template <class Sum>
void multiply_packed(std::int64_t m, std::int64_t n, std::int64_t k, const Sum* a, const Sum* b,
                     bool accumulates, Sum* c, std::int64_t stride);

}  // namespace ptdp::PTDP_CPU_VARIANT
