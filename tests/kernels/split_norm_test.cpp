// Products of rows, and RMS norms of rows that are split over ranks, against the norms of whole
// rows by their definition in f64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/norm_definition.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

/// Rows of whole vectors, whose columns are split evenly over ranks. Each rank has something else
/// between its rows, which are `gap` elements apart.
struct SplitKind {
  std::int64_t rows = 0;
  std::int64_t ranks = 1;
  std::int64_t width = 0;  ///< Columns of a rank.
  std::int64_t gap = 0;
  double gamma_offset = 0.0;

  [[nodiscard]] NormKind whole() const {
    return {.rows = rows, .h = ranks * width, .gamma_offset = gamma_offset};
  }
  [[nodiscard]] NormKind part() const { return {.rows = rows, .h = width, .gap = gap}; }
};

std::ostream& operator<<(std::ostream& out, const SplitKind& kind) {
  return out << kind.rows << "x" << kind.ranks << "x" << kind.width << " gap " << kind.gap
             << " offset " << kind.gamma_offset;
}

/// Returns rows that are read by 16 bytes in every type, in f32 only, and in none. They have from
/// one element to several vectors for each lane of a warp.
std::vector<SplitKind> split_kinds() {
  std::vector<SplitKind> kinds;
  for (const std::int64_t width : {1, 8, 12, 33, 64, 264, 520}) {
    kinds.push_back({.rows = 5, .ranks = 2, .width = width, .gap = 8});
    kinds.push_back({.rows = 3, .ranks = 4, .width = width, .gap = 3, .gamma_offset = 1.0});
  }
  kinds.push_back({.rows = 300, .ranks = 3, .width = 24, .gap = 24});
  kinds.push_back({.rows = 4, .ranks = 1, .width = 96});
  kinds.push_back({.rows = 0, .ranks = 2, .width = 8});
  return kinds;
}

class SplitNorms : public OnBackend {
 protected:
  /// Which buffer the gradient of x goes to.
  enum class Target { kApart, kX, kDy };

  /// Returns a rank's columns of whole rows.
  static Values columns_of(const SplitKind& kind, std::int64_t rank, const Values& whole) {
    Values columns;
    const auto rows = static_cast<std::int64_t>(whole.size()) / (kind.ranks * kind.width);
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto begin = whole.begin() + (row * kind.ranks + rank) * kind.width;
      columns.insert(columns.end(), begin, begin + kind.width);
    }
    return columns;
  }
  /// Puts a rank's columns into their place in whole rows.
  static void set_columns(const SplitKind& kind, std::int64_t rank, const Values& columns,
                          Values& whole) {
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(columns.size()); ++i) {
      whole[(i / kind.width * kind.ranks + rank) * kind.width + i % kind.width] = columns[i];
    }
  }
  [[nodiscard]] VectorRows put_part(DataType type, const SplitKind& kind, std::int64_t rank,
                                    const Values& whole, std::int64_t offset) {
    return {put(type, spread(kind.part(), columns_of(kind, rank, whole)), offset),
            kind.part().stride()};
  }
  /// Returns a rank's columns. Expects that nothing between its rows has changed.
  Values get_part(const SplitKind& kind, const VectorRows& rows) {
    const Values all = get(rows.elements);
    Values columns;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (static_cast<std::int64_t>(i) % rows.stride < kind.width) {
        columns.push_back(all[i]);
      } else {
        EXPECT_EQ(all[i], kBetweenRows) << i;
      }
    }
    return columns;
  }

  /// Norms the rows on all ranks, one after the other. Their sums are added in f64.
  Normed forward(DataType type, const SplitKind& kind, const KindInputs& in,
                 std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    Values squares(kind.rows, 0.0);
    for (std::int64_t rank = 0; rank < kind.ranks; ++rank) {
      const VectorRows x = put_part(type, kind, rank, in.x, offset);
      const Buffer sums = poison(accumulator, kind.rows, offset);
      backend().row_products(
          {.a = x, .b = x, .sums = sums, .width = kind.width, .rows = kind.rows});
      add(get(sums), squares);
    }
    Normed normed{Values(in.x.size()), {}, {}};
    for (std::int64_t rank = 0; rank < kind.ranks; ++rank) {
      const VectorRows y = put_part(type, kind, rank, Values(in.x.size(), std::nan("")), offset);
      const Buffer rstd = poison(accumulator, kind.rows, offset);
      backend().split_norm({.x = put_part(type, kind, rank, in.x, offset),
                            .gamma = put(type, columns_of(kind, rank, in.gamma), offset),
                            .gamma_offset = kind.gamma_offset,
                            .epsilon = kNormEpsilon,
                            .squares = put(accumulator, squares, offset),
                            .whole_width = kind.ranks * kind.width,
                            .y = y,
                            .rstd = rstd,
                            .rows = kind.rows});
      set_columns(kind, rank, get_part(kind, y), normed.y);
      normed.rstd = get(rstd);
    }
    return normed;
  }

  NormedGradients backward(DataType type, const SplitKind& kind, const KindInputs& in,
                           const Values& rstd, Target target, std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    Values products(kind.rows, 0.0);
    for (std::int64_t rank = 0; rank < kind.ranks; ++rank) {
      const Buffer sums = poison(accumulator, kind.rows, offset);
      backend().row_products({.a = put_part(type, kind, rank, in.dy, offset),
                              .b = put_part(type, kind, rank, in.x, offset),
                              .weights = put(type, columns_of(kind, rank, in.gamma), offset),
                              .weights_offset = kind.gamma_offset,
                              .sums = sums,
                              .width = kind.width,
                              .rows = kind.rows});
      add(get(sums), products);
    }
    NormedGradients gradients{Values(in.x.size()), Values(in.gamma.size()), {}};
    for (std::int64_t rank = 0; rank < kind.ranks; ++rank) {
      const VectorRows dy = put_part(type, kind, rank, in.dy, offset);
      const VectorRows x = put_part(type, kind, rank, in.x, offset);
      const VectorRows apart =
          put_part(type, kind, rank, Values(in.x.size(), std::nan("")), offset);
      const VectorRows dx = target == Target::kX ? x : target == Target::kDy ? dy : apart;
      const Buffer dgamma = put(accumulator, columns_of(kind, rank, in.dgamma), offset);
      backend().split_norm_backward({.dy = dy,
                                     .x = x,
                                     .rstd = put(accumulator, rstd, offset),
                                     .gamma = put(type, columns_of(kind, rank, in.gamma), offset),
                                     .gamma_offset = kind.gamma_offset,
                                     .products = put(accumulator, products, offset),
                                     .whole_width = kind.ranks * kind.width,
                                     .dx = dx,
                                     .dgamma = dgamma,
                                     .rows = kind.rows});
      set_columns(kind, rank, get_part(kind, dx), gradients.dx);
      set_columns(kind, rank, get(dgamma), gradients.dgamma);
    }
    return gradients;
  }

 private:
  static void add(const Values& terms, Values& to) {
    for (std::size_t i = 0; i < to.size(); ++i) {
      to[i] += terms[i];
    }
  }
};
using RowProducts = SplitNorms;

TEST_F(RowProducts, EqualTheirDefinition) {
  for (const DataType type : computed_types()) {
    for (const std::int64_t width : {1, 7, 8, 33, 264, 2056}) {
      for (const bool is_weighted : {false, true}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << width << " " << is_weighted);
        const SplitKind kind{.rows = 21, .width = width, .gap = 8};
        const Values a = random_values(kind.rows * width, 1, type);
        const Values b = random_values(kind.rows * width, 2, type);
        const Values weights = random_values(width, 3, type);
        Values expected(kind.rows, 0.0);
        double most = 0.0;
        for (std::int64_t row = 0; row < kind.rows; ++row) {
          double size = 0.0;
          for (std::int64_t c = 0; c < width; ++c) {
            const double term =
                a[row * width + c] * b[row * width + c] * (is_weighted ? weights[c] + 1.0 : 1.0);
            expected[row] += term;
            size += std::abs(term);
          }
          most = std::max(most, size);
        }
        const DataType accumulator = accumulator_of(type);
        for (const std::int64_t offset : {0, 1}) {
          const Buffer sums = poison(accumulator, kind.rows);
          backend().row_products({.a = put_part(type, kind, 0, a, offset),
                                  .b = put_part(type, kind, 0, b, offset),
                                  .weights = is_weighted ? put(type, weights, offset) : Buffer{},
                                  .weights_offset = 1.0,
                                  .sums = sums,
                                  .width = width,
                                  .rows = kind.rows});
          expect_near(get(sums), expected, accumulator, {.units = 32.0, .scale = most}, "sums");
        }
      }
    }
  }
}

TEST_F(RowProducts, AreThereForMoreRowsThanAGridTakesAtOnce) {
  const DataType type = DataType::kFloat32;
  const std::int64_t rows = 16403;
  Values a(rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    a[row] = static_cast<double>(row % 100);
  }
  const VectorRows x{put(type, a), 1};
  const Buffer sums = poison(type, rows);
  backend().row_products({.a = x, .b = x, .sums = sums, .width = 1, .rows = rows});
  for (double& value : a) {
    value *= value;
  }
  EXPECT_EQ(get(sums), a);
}

TEST_F(SplitNorms, EqualNormsOfWholeRows) {
  for (const DataType type : computed_types()) {
    for (const SplitKind& kind : split_kinds()) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
      const KindInputs in(type, kind.whole());
      const Normed found = forward(type, kind, in);
      const Normed expected = naive_kind(kind.whole(), in.x, in.gamma, {});
      expect_near(found.y, expected.y, type, {.units = 32.0}, "y");
      expect_near(found.rstd, expected.rstd, accumulator_of(type), {.units = 16.0, .scale = 0.0},
                  "rstd");
    }
  }
}

TEST_F(SplitNorms, HaveTheGradientsOfNormsOfWholeRowsApartAndInPlace) {
  for_each_type_and_case(split_kinds(), [&](DataType type, const SplitKind& kind) {
    const DataType accumulator = accumulator_of(type);
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
    const KindInputs in(type, kind.whole());
    Normed normed = naive_kind(kind.whole(), in.x, in.gamma, {});
    normed.rstd = rounded(normed.rstd, accumulator);
    const NormedGradients expected =
        naive_kind_gradients(kind.whole(), in, normed, Values(in.x.size(), 0.0));
    const NormedGradients found = backward(type, kind, in, normed.rstd, Target::kApart);
    expect_near(found.dx, expected.dx, type, {.units = 64.0}, "dx");
    expect_near(found.dgamma, expected.dgamma, accumulator, {.units = 400.0}, "dgamma");
    EXPECT_EQ(backward(type, kind, in, normed.rstd, Target::kX), found);
    EXPECT_EQ(backward(type, kind, in, normed.rstd, Target::kDy), found);
  });
}

TEST_F(SplitNorms, GiveTheSameBitsAgainAndAtAnyAlignment) {
  const std::vector<SplitKind> kinds = {
      {.rows = 5, .ranks = 2, .width = 776},
      {.rows = 300, .ranks = 3, .width = 72, .gap = 16, .gamma_offset = 1.0}};
  for_each_type_and_case(kinds, [&](DataType type, const SplitKind& kind) {
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
    const KindInputs in(type, kind.whole());
    const Normed normed = forward(type, kind, in);
    const NormedGradients gradients = backward(type, kind, in, normed.rstd, Target::kApart);
    for (const std::int64_t offset : {0, 1, 4}) {
      EXPECT_EQ(forward(type, kind, in, offset), normed) << "offset " << offset;
      EXPECT_EQ(backward(type, kind, in, normed.rstd, Target::kApart, offset), gradients)
          << "offset " << offset;
    }
  });
}

}  // namespace
}  // namespace ptdp
