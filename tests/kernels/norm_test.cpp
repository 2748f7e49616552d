// Norms by the root mean square, of weights stored minus 1, and of vectors side by side in rows,
// against their definitions in f64 and finite differences.
#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "tests/kernels/finite_differences.h"
#include "tests/kernels/norm_definition.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

class Norms : public OnBackend {
 protected:
  /// Which buffer the gradient of x goes to, and whether it is added to what is there or elsewhere.
  enum class Target { kAdded, kAddedApart, kApart, kX, kDy };

  [[nodiscard]] VectorRows put_rows(DataType type, const NormKind& kind, const Values& vectors,
                                    std::int64_t offset) {
    return {put(type, spread(kind, vectors), offset), kind.stride()};
  }
  /// Returns the vectors of rows. Expects that nothing else has changed.
  Values get_rows(const NormKind& kind, const VectorRows& rows) {
    const Values all = get(rows.elements);
    Values vectors;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (static_cast<std::int64_t>(i) % kind.stride() < kind.vectors * kind.h) {
        vectors.push_back(all[i]);
      } else {
        EXPECT_EQ(all[i], kBetweenRows) << i;
      }
    }
    return vectors;
  }

  Normed forward(DataType type, const NormKind& kind, const KindInputs& in,
                 std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const VectorRows y = put_rows(type, kind, Values(in.x.size(), std::nan("")), offset);
    const Buffer mean = kind.is_centered ? poison(accumulator, kind.count(), offset) : Buffer{};
    const Buffer rstd = poison(accumulator, kind.count(), offset);
    backend().norm({.x = put_rows(type, kind, in.x, offset),
                    .gamma = put(type, in.gamma, offset),
                    .gamma_offset = kind.gamma_offset,
                    .beta = kind.has_beta ? put(type, in.beta, offset) : Buffer{},
                    .epsilon = kNormEpsilon,
                    .y = y,
                    .mean = mean,
                    .rstd = rstd,
                    .rows = kind.rows,
                    .vectors = kind.vectors});
    return {get_rows(kind, y), kind.is_centered ? get(mean) : Values(), get(rstd)};
  }

  NormedGradients backward(DataType type, const NormKind& kind, const KindInputs& in,
                           const Normed& normed, Target target, std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const VectorRows x = put_rows(type, kind, in.x, offset);
    const VectorRows dy = put_rows(type, kind, in.dy, offset);
    const VectorRows apart = put_rows(
        type, kind, target == Target::kAdded ? in.dx : Values(in.x.size(), std::nan("")), offset);
    const Buffer added = target == Target::kAdded        ? apart.elements
                         : target == Target::kAddedApart ? put(type, spread(kind, in.dx), offset)
                                                         : Buffer{};
    const VectorRows dx = target == Target::kX ? x : target == Target::kDy ? dy : apart;
    const Buffer dgamma = put(accumulator, in.dgamma, offset);
    const Buffer dbeta = kind.has_beta ? put(accumulator, in.dbeta, offset) : Buffer{};
    const bool sums = sums_added(kind) && !added.empty();
    const Buffer added_sum = sums ? put(accumulator, in.added_sum, offset) : Buffer{};
    backend().norm_backward(
        {.dy = dy,
         .x = x,
         .mean = kind.is_centered ? put(accumulator, normed.mean, offset) : Buffer{},
         .rstd = put(accumulator, normed.rstd, offset),
         .gamma = put(type, in.gamma, offset),
         .gamma_offset = kind.gamma_offset,
         .dx = dx,
         .added = added,
         .dgamma = dgamma,
         .dbeta = dbeta,
         .added_sum = added_sum,
         .rows = kind.rows,
         .vectors = kind.vectors});
    return {get_rows(kind, dx), get(dgamma), kind.has_beta ? get(dbeta) : Values(),
            sums ? get(added_sum) : Values()};
  }
};
using NormsBackward = Norms;

TEST_F(Norms, EqualTheDefinitionOfEveryKind) {
  for (const DataType type : computed_types()) {
    const DataType accumulator = accumulator_of(type);
    for (const NormKind& kind : norm_kinds()) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
      const KindInputs in(type, kind);
      const Normed found = forward(type, kind, in);
      const Normed expected = naive_kind(kind, in.x, in.gamma, in.beta);
      expect_near(found.y, expected.y, type, {.units = 32.0}, "y");
      expect_near(found.mean, expected.mean, accumulator, {.units = 16.0}, "mean");
      expect_near(found.rstd, expected.rstd, accumulator, {.units = 16.0, .scale = 0.0}, "rstd");
    }
  }
}

// Each case writes to one place of three beside those that are compared with the definition. The
// turn moves on by one more after three cases, since kinds come in threes.
TEST_F(NormsBackward, EqualTheDefinitionOfEveryKindAddedApartAndInPlace) {
  int num_tried = 0;
  for_each_type_and_case(norm_kinds(), [&](DataType type, const NormKind& kind) {
    const DataType accumulator = accumulator_of(type);
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
    const KindInputs in(type, kind);
    Normed normed = naive_kind(kind, in.x, in.gamma, in.beta);
    normed.mean = rounded(normed.mean, accumulator);
    normed.rstd = rounded(normed.rstd, accumulator);
    const NormedGradients added = backward(type, kind, in, normed, Target::kAdded);
    const NormedGradients apart = backward(type, kind, in, normed, Target::kApart);
    const NormedGradients expected = naive_kind_gradients(kind, in, normed, in.dx);
    const Values none(in.x.size(), 0.0);
    expect_near(added.dx, expected.dx, type, {.units = 64.0}, "added dx");
    if (kind.h > 1) {  // Of one element almost nothing is left, which any rounding exceeds.
      expect_near(apart.dx, naive_kind_gradients(kind, in, normed, none).dx, type, {.units = 64.0},
                  "dx");
    }
    expect_near(added.dgamma, expected.dgamma, accumulator, {.units = 400.0}, "dgamma");
    expect_near(added.dbeta, expected.dbeta, accumulator, {.units = 400.0}, "dbeta");
    expect_near(added.added_sum, expected.added_sum, accumulator, {.units = 400.0}, "added_sum");
    EXPECT_EQ(apart.dgamma, added.dgamma);
    EXPECT_EQ(apart.dbeta, added.dbeta);
    constexpr std::array<Target, 3> targets = {Target::kAddedApart, Target::kX, Target::kDy};
    const Target target = targets[(num_tried + num_tried / 3) % 3];
    ++num_tried;
    EXPECT_EQ(backward(type, kind, in, normed, target),
              target == Target::kAddedApart ? added : apart);
  });
}

// All else has the same bits whether the sum of what is added is wanted or not. Of whole numbers
// the sum is exact, in any order. Blocks of a GPU take more than one row, keep sums of rows of up
// to 8192 elements (12288 of RMS norms), and leave wider ones to another pass. Sums of 4096
// elements take the 48 KiB that a block has without asking, of which it needs some for itself.
TEST_F(NormsBackward, SumWhatIsAddedBesideAllElse) {
  const std::vector<NormKind> kinds = {
      {.rows = 2100, .h = 40, .is_centered = true, .has_beta = true},
      {.rows = 70, .h = 33, .is_centered = true, .has_beta = true},
      {.rows = 70, .h = 1032, .is_centered = true, .has_beta = true},
      {.rows = 4, .h = 4096, .is_centered = true, .has_beta = true},
      {.rows = 4, .h = 8192, .is_centered = true, .has_beta = true},
      {.rows = 4, .h = 8200, .is_centered = true, .has_beta = true},
      {.rows = 70, .h = 1032},
      {.rows = 70, .h = 64},
      {.rows = 2, .h = 12288},
      {.rows = 2, .h = 12296}};
  for_each_type_and_case(kinds, [&](DataType type, const NormKind& kind) {
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
    KindInputs in(type, kind);
    in.added_sum = Values(kind.h);
    Values expected = in.added_sum;
    for (std::int64_t row = 0; row < kind.rows; ++row) {
      for (std::int64_t c = 0; c < kind.h; ++c) {
        const auto whole = static_cast<double>((row * 7 + c * 3 + row * c) % 31 - 15);
        in.dx[row * kind.h + c] = whole;
        expected[c] += whole;
      }
    }
    const Normed normed = forward(type, kind, in);
    for (const Target target : {Target::kAdded, Target::kAddedApart}) {
      NormedGradients found = backward(type, kind, in, normed, target);
      EXPECT_EQ(found.added_sum, expected);
      NormKind spread_out = kind;  // wants no sum
      spread_out.gap = 16;
      found.added_sum = {};
      EXPECT_EQ(backward(type, spread_out, in, normed, target), found);
    }
  });
}

TEST_F(NormsBackward, EqualFiniteDifferences) {
  const DataType type = widest_type();
  for (const NormKind& kind :
       {NormKind{.rows = 3, .h = 19}, NormKind{.rows = 2, .h = 24, .gamma_offset = 1.0},
        NormKind{.rows = 2, .vectors = 3, .h = 8, .gap = 5, .has_beta = true, .gamma_offset = 1.0},
        NormKind{.rows = 2, .vectors = 3, .h = 8, .gap = 8, .is_centered = true}}) {
    SCOPED_TRACE(testing::Message() << kind);
    KindInputs in(type, kind);
    in.dgamma = Values(kind.h, 0.0);
    in.dbeta = Values(in.dbeta.size(), 0.0);
    const NormedGradients found = backward(type, kind, in, forward(type, kind, in), Target::kApart);
    const auto loss = [&](const Values& x, const Values& gamma, const Values& beta) {
      return dot(naive_kind(kind, x, gamma, beta).y, in.dy);
    };
    expect_gradient(
        found.dx, in.x, [&](const Values& x) { return loss(x, in.gamma, in.beta); }, "x");
    expect_gradient(
        found.dgamma, in.gamma, [&](const Values& gamma) { return loss(in.x, gamma, in.beta); },
        "gamma");
    expect_gradient(
        found.dbeta, in.beta, [&](const Values& beta) { return loss(in.x, in.gamma, beta); },
        "beta");
  }
}

TEST_F(Norms, GiveTheSameBitsAgainAndAtAnyAlignmentForwardAndBackward) {
  const std::vector<NormKind> kinds = {
      {.rows = 5, .h = 776},
      {.rows = 300, .h = 72, .gamma_offset = 1.0},
      {.rows = 40, .vectors = 6, .h = 64, .gap = 128},
      {.rows = 2, .h = 8256, .has_beta = true},
      {.rows = 70, .h = 264, .is_centered = true, .has_beta = true},
      {.rows = 3, .h = 4096, .is_centered = true, .has_beta = true},
      {.rows = 3, .h = 8192, .is_centered = true, .has_beta = true},
      {.rows = 3, .h = 8200, .is_centered = true, .has_beta = true}};
  for_each_type_and_case(kinds, [&](DataType type, const NormKind& kind) {
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
    const KindInputs in(type, kind);
    const Normed normed = forward(type, kind, in);
    const NormedGradients gradients = backward(type, kind, in, normed, Target::kAdded);
    for (const std::int64_t offset : {0, 1, 4}) {
      EXPECT_EQ(forward(type, kind, in, offset), normed) << "offset " << offset;
      EXPECT_EQ(backward(type, kind, in, normed, Target::kAdded, offset), gradients)
          << "offset " << offset;
    }
  });
}

TEST_F(NormsBackward, GiveAVectorTheSameBitsWithoutTheOthers) {
  const DataType type = DataType::kBFloat16;
  const NormKind all{.rows = 900, .vectors = 9, .h = 8};
  NormKind last = all;
  last.rows = last.vectors = 1;
  const KindInputs in(type, all);
  const Normed normed = forward(type, all, in);
  const auto last_of = [](const Values& values, std::ptrdiff_t count) {
    return Values(values.end() - count, values.end());
  };
  KindInputs alone = in;
  alone.x = last_of(in.x, 8);
  alone.dy = last_of(in.dy, 8);
  const Normed of_last{{}, {}, last_of(normed.rstd, 1)};
  EXPECT_EQ(backward(type, last, alone, of_last, Target::kApart).dx,
            last_of(backward(type, all, in, normed, Target::kApart).dx, 8));
}

}  // namespace
}  // namespace ptdp
