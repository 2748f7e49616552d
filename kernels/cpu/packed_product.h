// Products of small blocks of matrices that were first copied into the order in which the innermost
// loop reads them. Source: Goto & van de Geijn, Anatomy of high-performance matrix multiplication,
// ACM TOMS 34(3), 2008; Van Zee & van de Geijn, BLIS, ACM TOMS 41(3), 2015.
//
// Every element of a product is one chain of multiply-adds over ascending k, then one addition to
// what is there: its bits depend on its row of A, its column of B and k alone, not on the size of
// the matrices or on its place in them.
#pragma once

#include <cstdint>

#include "kernels/cpu/element.h"
#include "kernels/cpu/vector.h"

namespace ptdp::PTDP_CPU_VARIANT {

/// A matrix in memory, elements [row·row_stride + column·column_stride]. One stride is 1 if reading
/// is to be fast.
template <class T>
struct MatrixView {
  const T* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;

  [[nodiscard]] MatrixView block(std::int64_t row, std::int64_t column) const {
    return {data + row * row_stride + column * column_stride, row_stride, column_stride};
  }
  [[nodiscard]] MatrixView transposed() const { return {data, column_stride, row_stride}; }
};

/// What the innermost loop computes: so many rows by so many columns of C in registers.
inline constexpr std::int64_t kPanelRows = kVectorRegisters == 32 ? 12 : 6;
template <class Sum>
inline constexpr std::int64_t kPanelColumns = 2 * VectorOf<Sum>::kLength;

[[nodiscard]] constexpr std::int64_t round_up(std::int64_t size, std::int64_t multiple) {
  return (size + multiple - 1) / multiple * multiple;
}
/// Numbers in a packed A [m, k] and a packed B [k, n].
template <class Sum>
[[nodiscard]] constexpr std::int64_t packed_rows_size(std::int64_t m, std::int64_t k) {
  return round_up(round_up(m, kPanelRows) * k, kPanelColumns<Sum>);
}
template <class Sum>
[[nodiscard]] constexpr std::int64_t packed_columns_size(std::int64_t k, std::int64_t n) {
  return round_up(n, kPanelColumns<Sum>) * k;
}

/// A[m, k] as panels of kPanelRows rows, each panel column by column; missing rows are 0.
template <class T>
void pack_rows(const MatrixView<T>& a, std::int64_t m, std::int64_t k, Accumulator<T>* to);
/// B[k, n] as panels of kPanelColumns columns, each panel row by row; missing columns are 0.
template <class T>
void pack_columns(const MatrixView<T>& b, std::int64_t k, std::int64_t n, Accumulator<T>* to);

/// C[m, n] = A·B or C += A·B of packed operands, rows of C `stride` apart. `b` begins at a multiple
/// of a vector.
template <class Sum>
void multiply_packed(std::int64_t m, std::int64_t n, std::int64_t k, const Sum* a, const Sum* b,
                     bool accumulates, Sum* c, std::int64_t stride);

}  // namespace ptdp::PTDP_CPU_VARIANT
