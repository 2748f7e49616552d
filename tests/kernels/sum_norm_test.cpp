// The sum at the end of a residual branch and its norm as one operation: against their definition,
// and bit by bit against the two operations apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tests/kernels/norm_definition.h"
#include "tests/kernels/philox_reference.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

constexpr std::int64_t kSumRows = 6;
constexpr double kBranchScale = 0.75;
/// Two sequences of 8 tokens, whose positions 1, 2 and 6 are here.
constexpr TokenRange kSumRange = {
    .first_sample = 3, .batch = 2, .seq_length = 8, .runs = {PositionRun{1, 2}, PositionRun{6, 1}}};

/// A sum and its norm.
struct SumKind {
  std::int64_t width = 0;
  bool is_layer_norm = false;
  double dropout = 0.0;
  bool has_bias = false;
  bool has_residual = true;

  [[nodiscard]] NormKind norm() const {
    return {.rows = kSumRows,
            .h = width,
            .is_centered = is_layer_norm,
            .has_beta = is_layer_norm,
            .gamma_offset = is_layer_norm ? 0.0 : 1.0};
  }
};

std::ostream& operator<<(std::ostream& out, const SumKind& kind) {
  return out << kind.norm() << " dropout " << kind.dropout << (kind.has_bias ? " bias" : "")
             << (kind.has_residual ? " residual" : "");
}

/// Returns sums of narrow rows and of wide ones: of whole chunks of 16 bytes in every type, in f32
/// only, and of none; held in registers or not. Models have widths from 64 to 25,600.
std::vector<SumKind> sum_kinds() {
  std::vector<SumKind> kinds;
  for (const std::int64_t width : {1, 64, 132, 768, 1031, 4096, 16392, 25600}) {
    kinds.push_back({.width = width, .is_layer_norm = true, .has_bias = true});
    kinds.push_back({.width = width, .is_layer_norm = true, .dropout = 0.3, .has_bias = true});
    kinds.push_back({.width = width});
    kinds.push_back({.width = width, .dropout = 0.1});
  }
  kinds.push_back({.width = 640, .is_layer_norm = true, .has_residual = false});
  kinds.push_back({.width = 640, .dropout = 0.5, .has_bias = true, .has_residual = false});
  return kinds;
}

/// Which buffer the sum goes to.
enum class SumTarget { kApart, kX, kResidual };

/// A sum and the norm of it.
struct SummedAndNormed {
  Values sum;
  Normed normed;

  bool operator==(const SummedAndNormed&) const = default;
};

class SumAndNorm : public OnBackend {
 protected:
  struct Inputs {
    Inputs(DataType type, const SumKind& kind)
        : x(random_values(kSumRows * kind.width, 1, type)),
          bias(kind.has_bias ? random_values(kind.width, 2, type) : Values()),
          residual(kind.has_residual ? random_values(kSumRows * kind.width, 3, type) : Values()),
          gamma(random_values(kind.width, 4, type)),
          beta(kind.is_layer_norm ? random_values(kind.width, 5, type) : Values()) {}

    Values x, bias, residual, gamma, beta;
  };

  /// Computes both, as one operation or as two.
  SummedAndNormed compute(DataType type, const SumKind& kind, const Inputs& in, bool is_one,
                          SumTarget target = SumTarget::kApart, std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const Buffer x = put(type, in.x, offset);
    const Buffer residual = put(type, in.residual, offset);
    const Buffer apart = poison(type, kSumRows * kind.width, offset);
    const BiasDropoutAddCall sum = {.x = x,
                                    .bias = put(type, in.bias, offset),
                                    .residual = residual,
                                    .dropout = {.probability = kind.dropout, .key = 0x1234567890U},
                                    .scale = kBranchScale,
                                    .range = kSumRange,
                                    .y = target == SumTarget::kX          ? x
                                         : target == SumTarget::kResidual ? residual
                                                                          : apart,
                                    .rows = kSumRows};
    const Buffer y = poison(type, kSumRows * kind.width, offset);
    const Buffer mean = kind.is_layer_norm ? poison(accumulator, kSumRows, offset) : Buffer{};
    const Buffer rstd = poison(accumulator, kSumRows, offset);
    const NormCall norm = {.x = {sum.y, kind.width},
                           .gamma = put(type, in.gamma, offset),
                           .gamma_offset = kind.norm().gamma_offset,
                           .beta = put(type, in.beta, offset),
                           .epsilon = kNormEpsilon,
                           .y = {y, kind.width},
                           .mean = mean,
                           .rstd = rstd,
                           .rows = kSumRows};
    if (is_one) {
      backend().sum_and_norm(sum, norm);
    } else {
      backend().bias_dropout_add(sum);
      backend().norm(norm);
    }
    return {get(sum.y), {get(y), kind.is_layer_norm ? get(mean) : Values(), get(rstd)}};
  }
};

/// Returns a sum by its definition.
Values naive_sum(const SumKind& kind, const Values& x, const Values& bias, const Values& residual) {
  Values sum;
  for (std::int64_t i = 0; i < kSumRows * kind.width; ++i) {
    const std::int64_t row = i / kind.width;
    const std::int64_t column = i % kind.width;
    const std::int64_t position = row / 2 == 2 ? 6 : 1 + row / 2;
    const std::int64_t number = ((3 + row % 2) * 8 + position) * kind.width + column;
    const double mask = kind.dropout == 0.0 ? 1.0
                                            : mask_reference(0x1234567890U, kind.dropout,
                                                             static_cast<std::uint64_t>(number));
    sum.push_back((residual.empty() ? 0.0 : residual[i]) +
                  kBranchScale * mask * (x[i] + (bias.empty() ? 0.0 : bias[column])));
  }
  return sum;
}

/// Returns the largest magnitude of what is added to the residual.
double largest_product(const SumKind& kind, const Values& x, const Values& bias) {
  double largest = 0.0;
  for (const double product : naive_sum(kind, x, bias, {})) {
    largest = std::max(largest, std::abs(product));
  }
  return largest;
}

TEST_F(SumAndNorm, EqualTheirDefinitions) {
  for_each_type_and_case(sum_kinds(), [&](DataType type, const SumKind& kind) {
    const DataType accumulator = accumulator_of(type);
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
    const Inputs in(type, kind);
    const SummedAndNormed found = compute(type, kind, in, /*is_one=*/true);
    // What is multiplied is rounded three times, as a sum, by its factor and as a product.
    const double units = 1.0 + 3.0 * largest_product(kind, in.x, in.bias);
    expect_near(found.sum, naive_sum(kind, in.x, in.bias, in.residual), type, {.units = units},
                "sum");
    // The norm is that of the sum as it is stored.
    const Normed expected = naive_kind(kind.norm(), found.sum, in.gamma, in.beta);
    if (kind.width > 1) {  // The deviation of one number is 0, of which any rounding is far.
      expect_near(found.normed.y, expected.y, type, {.units = 32.0}, "y");
    }
    expect_near(found.normed.mean, expected.mean, accumulator, {.units = 16.0}, "mean");
    expect_near(found.normed.rstd, expected.rstd, accumulator, {.units = 16.0, .scale = 0.0},
                "rstd");
  });
}

// Each sum goes to one buffer of three, in turn, and at another alignment to that of x.
TEST_F(SumAndNorm, HaveTheBitsOfTwoOperationsWhereverTheSumGoesAndAtAnyAlignment) {
  int num_tried = 0;
  for_each_type_and_case(sum_kinds(), [&](DataType type, const SumKind& kind) {
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << kind);
    const Inputs in(type, kind);
    const SummedAndNormed apart = compute(type, kind, in, /*is_one=*/false);
    constexpr std::array<SumTarget, 3> targets = {SumTarget::kApart, SumTarget::kX,
                                                  SumTarget::kResidual};
    SumTarget target = targets[num_tried % 3];
    ++num_tried;
    if (target == SumTarget::kResidual && !kind.has_residual) {
      target = SumTarget::kApart;
    }
    EXPECT_EQ(compute(type, kind, in, /*is_one=*/true, target), apart) << static_cast<int>(target);
    EXPECT_EQ(compute(type, kind, in, /*is_one=*/true, SumTarget::kX, 1), apart);
  });
}

TEST_F(SumAndNorm, TakeNoRows) {
  const DataType type = widest_type();
  const Buffer none = put(type, {});
  const Buffer rstd = put(accumulator_of(type), {});
  backend().sum_and_norm({.x = none, .residual = none, .y = none},
                         {.x = {none, 64},
                          .gamma = put(type, random_values(64, 1, type)),
                          .y = {none, 64},
                          .rstd = rstd});
  EXPECT_TRUE(get(none).empty());
}

}  // namespace
}  // namespace ptdp
