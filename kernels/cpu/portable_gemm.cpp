// Matrix products in blocks that fit the caches.
#include <algorithm>
#include <cassert>

#include "kernels/cpu/fill_loops.h"
#include "kernels/cpu/packed_product.h"

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Rows of a block of B. A panel of kDepth rows fits the first-level cache (32 KiB with 512-bit
/// vectors).
constexpr std::int64_t kDepth = 256;
/// Rows of a block of A: kRows × kDepth numbers fit the second-level cache.
constexpr std::int64_t kRows = 10 * kPanelRows;
/// Columns of a block of B: kDepth × kColumns numbers are 1 MiB.
template <class Sum>
constexpr std::int64_t kColumns = 4096 / static_cast<std::int64_t>(sizeof(Sum));
/// Rows of a block of C, when C is of a narrower type than its sums. Scratch keeps kNarrowRows ×
/// kNarrowColumns sums.
constexpr std::int64_t kNarrowRows = 512;
/// Columns of a block of C, when C is of a narrower type than its sums.
constexpr std::int64_t kNarrowColumns = 512;

/// The block of C in work, and the sizes of the packed blocks of A and B and of the sums.
struct Blocking {
  std::int64_t rows = 0;      ///< Rows of the block of C.
  std::int64_t columns = 0;   ///< Columns of the block of C.
  std::int64_t packed_a = 0;  ///< Size of the packed block of A [numbers].
  std::int64_t packed_b = 0;  ///< Size of the packed block of B [numbers].
  std::int64_t sums = 0;      ///< Number of sums kept; 0 when C holds them itself.
};
template <class Sum>
/// Returns the blocking of `product`; `is_narrow` when C is of a narrower type than its sums.
Blocking blocking_of(const Matmul& product, bool is_narrow) {
  const std::int64_t depth = std::min(product.k, kDepth);
  Blocking blocking;
  blocking.rows = is_narrow ? std::min(product.m, kNarrowRows) : product.m;
  blocking.columns = std::min(product.n, is_narrow ? kNarrowColumns : kColumns<Sum>);
  blocking.packed_a = packed_rows_size<Sum>(std::min(blocking.rows, kRows), depth);
  blocking.packed_b = packed_columns_size<Sum>(depth, blocking.columns);
  blocking.sums = is_narrow ? blocking.rows * blocking.columns : 0;
  return blocking;
}

std::int64_t product_scratch(const Matmul& product, DataType type, DataType c_type) {
  const Blocking blocking = type == DataType::kFloat64
                                ? blocking_of<double>(product, false)
                                : blocking_of<float>(product, c_type != DataType::kFloat32);
  return blocking.packed_a + blocking.packed_b + blocking.sums;
}

/// Computes c[rows, columns] = a·b or c += a·b over all of k, with rows of c `stride` apart.
template <class T>
void multiply_block(std::int64_t rows, std::int64_t columns, std::int64_t k, const MatrixView<T>& a,
                    const MatrixView<T>& b, bool accumulates, Accumulator<T>* c,
                    std::int64_t stride, Accumulator<T>* packed_a, Accumulator<T>* packed_b) {
  for (std::int64_t p = 0; p < k; p += kDepth) {
    const std::int64_t depth = std::min(kDepth, k - p);
    pack_columns(b.block(p, 0), depth, columns, packed_b);
    for (std::int64_t i = 0; i < rows; i += kRows) {
      const std::int64_t count = std::min(kRows, rows - i);
      pack_rows(a.block(i, p), count, depth, packed_a);
      multiply_packed(count, columns, depth, packed_a, packed_b, accumulates || p > 0,
                      c + i * stride, stride);
    }
  }
}

/// Rounds a row of sums into elements, or adds it to them.
template <class C>
void store_row(const float* sums, std::int64_t size, bool accumulates, C* to) {
  if (accumulates) {
    for (std::int64_t i = 0; i < size; ++i) {
      to[i] = narrow<C>(widen(to[i]) + sums[i]);
    }
  } else {
    for (std::int64_t i = 0; i < size; ++i) {
      to[i] = narrow<C>(sums[i]);
    }
  }
}

/// Multiplies matrices block by block.
template <class T, class C>
void multiply(const Matmul& product, const T* a, const T* b, C* c, Accumulator<T>* scratch) {
  using Sum = Accumulator<T>;
  constexpr bool is_narrow = !std::is_same_v<C, Sum>;
  const auto& [m, n, k, transposes_a, transposes_b, accumulates] = product;
  const MatrixView<T> stored_a{a, transposes_a ? m : k, 1};
  const MatrixView<T> stored_b{b, transposes_b ? k : n, 1};
  const MatrixView<T> left = transposes_a ? stored_a.transposed() : stored_a;
  const MatrixView<T> right = transposes_b ? stored_b.transposed() : stored_b;
  const Blocking blocking = blocking_of<Sum>(product, is_narrow);
  Sum* const packed_b = scratch;
  Sum* const packed_a = packed_b + blocking.packed_b;
  Sum* const sums = packed_a + blocking.packed_a;
  for (std::int64_t j = 0; j < n; j += blocking.columns) {
    const std::int64_t columns = std::min(blocking.columns, n - j);
    for (std::int64_t i = 0; i < m; i += blocking.rows) {
      const std::int64_t rows = std::min(blocking.rows, m - i);
      C* const to = c + i * n + j;
      if constexpr (!is_narrow) {
        multiply_block(rows, columns, k, left.block(i, 0), right.block(0, j), accumulates, to, n,
                       packed_a, packed_b);
      } else {
        multiply_block(rows, columns, k, left.block(i, 0), right.block(0, j), false, sums, columns,
                       packed_a, packed_b);
        for (std::int64_t row = 0; row < rows; ++row) {
          store_row(sums + row * columns, columns, accumulates, to + row * n);
        }
      }
    }
  }
}

void portable_gemm(const Matmul& product, Buffer a, Buffer b, Buffer c, Buffer scratch) {
  assert(product.m > 0 && product.n > 0 && product.k > 0);
  visit_element_type(a.type, [&]<class T>(T) {
    using Sum = Accumulator<T>;
    if (c.type == accumulator_of(a.type)) {
      multiply(product, elements<T>(a), elements<T>(b), elements<Sum>(c), elements<Sum>(scratch));
    } else if constexpr (!std::is_same_v<T, Sum>) {
      multiply(product, elements<T>(a), elements<T>(b), elements<T>(c), elements<Sum>(scratch));
    }
  });
}

}  // namespace

void add_product_loops(KernelTable& loops) {
  loops.product_scratch = product_scratch;
  loops.product = portable_gemm;
}

}  // namespace ptdp::PTDP_CPU_VARIANT
