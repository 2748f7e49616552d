// Packs panels of matrices and multiplies them in registers.
#include "kernels/cpu/packed_product.h"

#include <algorithm>
#include <array>

namespace ptdp::PTDP_CPU_VARIANT {
namespace {

/// Transposes `count` rows of `length` numbers, [row·row_stride + i], into columns of kWidth: row r
/// goes to to[i·kWidth + r]. Missing rows become 0.
template <std::int64_t kWidth, class Number>
void transpose_panel(const Number* from, std::int64_t row_stride, std::int64_t count,
                     std::int64_t length, Number* to) {
  constexpr std::int64_t step = SquareOf<Number>::kSize;
  std::int64_t row = 0;
  for (; row + step <= count; row += step) {
    std::int64_t i = 0;
    for (; i + step <= length; i += step) {
      transpose_square(from + row * row_stride + i, row_stride, to + i * kWidth + row, kWidth);
    }
    for (; i < length; ++i) {
      for (std::int64_t r = row; r < row + step; ++r) {
        to[i * kWidth + r] = from[r * row_stride + i];
      }
    }
  }
  for (; row < kWidth; ++row) {
    for (std::int64_t i = 0; i < length; ++i) {
      to[i * kWidth + row] = row < count ? from[row * row_stride + i] : Number{0};
    }
  }
}

/// Transposes `count` rows of `length` elements into columns of kWidth accumulators. Elements of
/// narrower types are widened piece by piece. Missing rows become 0.
template <std::int64_t kWidth, class T>
void pack_transposed(const T* from, std::int64_t row_stride, std::int64_t count,
                     std::int64_t length, Accumulator<T>* to) {
  if constexpr (std::is_same_v<T, Accumulator<T>>) {
    transpose_panel<kWidth>(from, row_stride, count, length, to);
  } else {
    constexpr std::int64_t longest = 64;
    std::array<Accumulator<T>, kWidth * longest> wide{};
    for (std::int64_t first = 0; first < length; first += longest) {
      const std::int64_t piece = std::min(longest, length - first);
      for (std::int64_t row = 0; row < count; ++row) {
        for (std::int64_t i = 0; i < piece; ++i) {
          wide.data()[row * longest + i] = widen(from[row * row_stride + first + i]);
        }
      }
      transpose_panel<kWidth>(wide.data(), longest, count, piece, to + first * kWidth);
    }
  }
}

/// Copies `length` rows of `count` elements, [i·stride + c], to to[i·kWidth + c]. Missing columns
/// become 0.
template <std::int64_t kWidth, class T>
void pack_straight(const T* from, std::int64_t stride, std::int64_t count, std::int64_t length,
                   Accumulator<T>* to) {
  for (std::int64_t i = 0; i < length; ++i) {
    Accumulator<T>* const row = to + i * kWidth;
    if (count == kWidth) {
      for (std::int64_t c = 0; c < kWidth; ++c) {
        row[c] = widen(from[i * stride + c]);
      }
    } else {
      for (std::int64_t c = 0; c < kWidth; ++c) {
        row[c] = c < count ? widen(from[i * stride + c]) : Accumulator<T>{0};
      }
    }
  }
}

/// Packs lines into panels of kWidth lines. Numbers of a line lie `along` apart, and lines lie
/// `across` apart.
template <std::int64_t kWidth, class T>
void pack_panels(const T* from, std::int64_t across, std::int64_t along, std::int64_t lines,
                 std::int64_t length, Accumulator<T>* to) {
  for (std::int64_t first = 0; first < lines; first += kWidth) {
    const std::int64_t count = std::min(kWidth, lines - first);
    if (across == 1) {
      pack_straight<kWidth>(from + first, along, count, length, to + first * length);
    } else {
      pack_transposed<kWidth>(from + first * across, across, count, length, to + first * length);
    }
  }
}

/// A tile of a product in registers: kPanelRows rows of two vectors.
template <class Sum>
struct Tile {
  std::array<std::array<Vector<Sum>, 2>, kPanelRows> sums;
};

/// Returns the product of a panel of A and a panel of B over k.
template <class Sum>
inline __attribute__((always_inline)) Tile<Sum> tile_product(std::int64_t k, const Sum* a,
                                                             const Sum* b) {
  constexpr std::int64_t lanes = VectorOf<Sum>::kLength;
  Tile<Sum> tile{};
  for (std::int64_t p = 0; p < k; ++p) {
    const Vector<Sum> left = load_vector(b + 2 * p * lanes);
    const Vector<Sum> right = load_vector(b + (2 * p + 1) * lanes);
#pragma GCC unroll 12
    for (std::int64_t row = 0; row < kPanelRows; ++row) {
      const Sum factor = a[p * kPanelRows + row];
      tile.sums.data()[row].data()[0] += factor * left;
      tile.sums.data()[row].data()[1] += factor * right;
    }
  }
  return tile;
}

/// Writes the product of two panels to C, or adds it, with rows of C `stride` apart.
template <bool kAccumulates, class Sum>
void multiply_panel(std::int64_t k, const Sum* a, const Sum* b, Sum* c, std::int64_t stride) {
  constexpr std::int64_t lanes = VectorOf<Sum>::kLength;
  const Tile<Sum> tile = tile_product(k, a, b);
#pragma GCC unroll 12
  for (std::int64_t row = 0; row < kPanelRows; ++row) {
    for (std::int64_t half = 0; half < 2; ++half) {
      Sum* const to = c + row * stride + half * lanes;
      Vector<Sum> sum = tile.sums.data()[row].data()[half];
      if constexpr (kAccumulates) {
        sum = load_vector(to) + sum;
      }
      store_vector<Sum>(sum, to);
    }
  }
}

}  // namespace

template <class T>
void pack_rows(const MatrixView<T>& a, std::int64_t m, std::int64_t k, Accumulator<T>* to) {
  pack_panels<kPanelRows>(a.data, a.row_stride, a.column_stride, m, k, to);
}

template <class T>
void pack_columns(const MatrixView<T>& b, std::int64_t k, std::int64_t n, Accumulator<T>* to) {
  pack_panels<kPanelColumns<Accumulator<T>>>(b.data, b.column_stride, b.row_stride, n, k, to);
}

template <class Sum>
void multiply_packed(std::int64_t m, std::int64_t n, std::int64_t k, const Sum* a, const Sum* b,
                     bool accumulates, Sum* c, std::int64_t stride) {
  constexpr std::int64_t panel = kPanelColumns<Sum>;
  for (std::int64_t j = 0; j < n; j += panel) {
    const std::int64_t columns = std::min(panel, n - j);
    for (std::int64_t i = 0; i < m; i += kPanelRows) {
      const std::int64_t rows = std::min(kPanelRows, m - i);
      const Sum* const left = a + i * k;
      const Sum* const right = b + j * k;
      Sum* const to = c + i * stride + j;
      if (rows == kPanelRows && columns == panel) {
        if (accumulates) {
          multiply_panel<true>(k, left, right, to, stride);
        } else {
          multiply_panel<false>(k, left, right, to, stride);
        }
        continue;
      }
      std::array<Sum, kPanelRows * panel> whole{};
      multiply_panel<false>(k, left, right, whole.data(), panel);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
          const Sum sum = whole.data()[row * panel + column];
          Sum& element = to[row * stride + column];
          element = accumulates ? element + sum : sum;
        }
      }
    }
  }
}

template void pack_rows(const MatrixView<double>&, std::int64_t, std::int64_t, double*);
template void pack_rows(const MatrixView<float>&, std::int64_t, std::int64_t, float*);
template void pack_rows(const MatrixView<BFloat16>&, std::int64_t, std::int64_t, float*);
template void pack_rows(const MatrixView<Float16>&, std::int64_t, std::int64_t, float*);
template void pack_columns(const MatrixView<double>&, std::int64_t, std::int64_t, double*);
template void pack_columns(const MatrixView<float>&, std::int64_t, std::int64_t, float*);
template void pack_columns(const MatrixView<BFloat16>&, std::int64_t, std::int64_t, float*);
template void pack_columns(const MatrixView<Float16>&, std::int64_t, std::int64_t, float*);
template void multiply_packed(std::int64_t, std::int64_t, std::int64_t, const double*,
                              const double*, bool, double*, std::int64_t);
template void multiply_packed(std::int64_t, std::int64_t, std::int64_t, const float*, const float*,
                              bool, float*, std::int64_t);

}  // namespace ptdp::PTDP_CPU_VARIANT
