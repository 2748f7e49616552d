// Activations behind a bias, gated or not, against their definitions in extended precision.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include "tests/kernels/finite_differences.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

using Activation = OnBackend;
using ActivationBackward = OnBackend;

constexpr std::array<ActivationKind, 7> kActivationKinds = {
    ActivationKind::kTanhGelu, ActivationKind::kGelu, ActivationKind::kRelu,
    ActivationKind::kSilu,     ActivationKind::kTanh, ActivationKind::kSquaredRelu,
    ActivationKind::kQuickGelu};

struct ActivationShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;  ///< Width of a row of the result.
};
// Whole vectors of 16 bytes of every type, of f32 only, of none; more elements than a grid takes.
constexpr std::array<ActivationShape, 10> kActivationShapes = {{{0, 5},
                                                                {1, 1},
                                                                {1, 37},
                                                                {3, 16},
                                                                {5, 129},
                                                                {5, 1032},
                                                                {63, 260},
                                                                {200, 33},
                                                                {300, 8},
                                                                {1037, 3}}};

long double logistic(long double x) {
  return 1.0L / (1.0L + std::exp(-x));
}

/// a(x) and a'(x).
struct Activated {
  double value = 0.0;
  double slope = 0.0;
};

// 0.5·(1 + tanh u) = 1/(1 + e^(−2u)), which does not cancel where tanh nears −1.
Activated tanh_gelu(long double x) {
  constexpr long double two_roots = 2.0L * 0.79788456080286535588L;  // 2·√(2/π)
  const long double u = two_roots * (x + 0.044715L * x * x * x);
  const long double du = two_roots * (1.0L + 3.0L * 0.044715L * x * x);
  return {static_cast<double>(x * logistic(u)),
          static_cast<double>(logistic(u) + x * logistic(u) * logistic(-u) * du)};
}

Activated activated(ActivationKind kind, double at) {
  const long double x = at;
  switch (kind) {
    case ActivationKind::kTanhGelu:
      return tanh_gelu(x);
    case ActivationKind::kGelu: {
      const long double distribution = 0.5L * std::erfc(-x * 0.70710678118654752440L);
      const long double density = 0.39894228040143267794L * std::exp(-0.5L * x * x);
      return {static_cast<double>(x * distribution),
              static_cast<double>(distribution + x * density)};
    }
    case ActivationKind::kRelu:
      return {std::max(at, 0.0), at > 0.0 ? 1.0 : 0.0};
    case ActivationKind::kSilu:
      return {static_cast<double>(x * logistic(x)),
              static_cast<double>(logistic(x) * (1.0L + x * logistic(-x)))};
    case ActivationKind::kTanh: {
      const long double cosh = std::cosh(x);
      return {static_cast<double>(std::tanh(x)), static_cast<double>(1.0L / (cosh * cosh))};
    }
    case ActivationKind::kSquaredRelu:
      return {std::max(at, 0.0) * std::max(at, 0.0), 2.0 * std::max(at, 0.0)};
    case ActivationKind::kQuickGelu:
      return {
          static_cast<double>(x * logistic(1.702L * x)),
          static_cast<double>(logistic(1.702L * x) * (1.0L + 1.702L * x * logistic(-1.702L * x)))};
  }
  return {};
}

/// Returns y for inputs with their bias: rows of `width` elements, or of gates and values.
Values naive_activation(ActivationKind kind, bool is_gated, const Values& x, std::int64_t width) {
  Values y;
  const std::int64_t in_row = is_gated ? 2 * width : width;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(x.size()); ++i) {
    if (i % in_row < width) {
      y.push_back(activated(kind, x[i]).value * (is_gated ? x[i + width] : 1.0));
    }
  }
  return y;
}

/// Returns the gradient of the inputs.
Values naive_activation_gradient(ActivationKind kind, bool is_gated, const Values& x,
                                 const Values& dy, std::int64_t width) {
  Values dx(x.size());
  const std::int64_t in_row = is_gated ? 2 * width : width;
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(dy.size()); ++i) {
    const std::int64_t at = i / width * in_row + i % width;
    const Activated a = activated(kind, x[at]);
    dx[at] = dy[i] * a.slope * (is_gated ? x[at + width] : 1.0);
    if (is_gated) {
      dx[at + width] = dy[i] * a.value;
    }
  }
  return dx;
}

std::string trace_of(DataType type, ActivationKind kind, bool is_gated,
                     const ActivationShape& shape) {
  return std::string(name_of(type)) + " kind " + std::to_string(static_cast<int>(kind)) +
         (is_gated ? " gated " : " ") + std::to_string(shape.rows) + "x" +
         std::to_string(shape.width);
}

/// Calls check(type, kind, is_gated, shape) for every combination.
template <class Check>
void for_activations(const Check& check) {
  for (const DataType type : computed_types()) {
    for (const ActivationKind kind : kActivationKinds) {
      for (const bool is_gated : {false, true}) {
        for (const ActivationShape& shape : kActivationShapes) {
          SCOPED_TRACE(trace_of(type, kind, is_gated, shape));
          check(type, kind, is_gated, shape);
        }
      }
    }
  }
}

TEST_F(Activation, EqualsTheDefinitionAfterTheBiasWasAdded) {
  for_activations(
      [&](DataType type, ActivationKind kind, bool is_gated, const ActivationShape& shape) {
        const auto& [rows, width] = shape;
        const std::int64_t in_row = is_gated ? 2 * width : width;
        const Values x = random_values(rows * in_row, 1, type, 3.0);
        const Values b = random_values(in_row, 2, type);
        for (const bool has_bias : {true, false}) {
          const Buffer in = put(type, x);
          const Buffer y = poison(type, rows * width);
          backend().activation({.kind = kind,
                                .is_gated = is_gated,
                                .x = in,
                                .bias = has_bias ? put(type, b) : Buffer{},
                                .y = y,
                                .rows = rows});
          Values sums = x;
          for (std::size_t i = 0; i < x.size() && has_bias; ++i) {
            sums[i] = rounded(rounded(x[i] + b[i % b.size()], accumulator_of(type)), type);
          }
          EXPECT_EQ(get(in), sums);
          expect_near(get(y), naive_activation(kind, is_gated, sums, width), type,
                      {.units = is_gated ? 32.0 : 8.0, .scale = is_gated ? 1.0 : 0.1}, "y");
        }
      });
}

TEST_F(Activation, IsAccurateFarFromZeroOnBothSides) {
  for (const DataType type : {widest_type(), DataType::kFloat32}) {
    for (const ActivationKind kind : kActivationKinds) {
      Values x;
      Values expected;
      for (int i = -400; i <= 400; ++i) {
        x.push_back(rounded(0.05 * i, type));
        expected.push_back(activated(kind, x.back()).value);
      }
      const Buffer y = poison(type, static_cast<std::int64_t>(x.size()));
      backend().activation({.kind = kind, .x = put(type, x), .y = y, .rows = 1});
      const std::string what =
          std::string(name_of(type)) + " kind " + std::to_string(static_cast<int>(kind));
      // Relative to 1 here; the exponent of order 100 carries a rounding of its own.
      expect_near(get(y), expected, type, {.units = 4.0}, what);
      // Element by element; results near the smallest normal number may become 0.
      expect_close(get(y), expected, 3e-5, 1e-30, what);
    }
  }
}

TEST_F(Activation, KeepsTheOrderOfZeroAndHasNoSlopeThereWhereItHasAKink) {
  for (const ActivationKind kind : {ActivationKind::kRelu, ActivationKind::kSquaredRelu}) {
    const Buffer x = put(DataType::kFloat32, {0.0, -1.0, 2.0, -0.0});
    const Buffer y = poison(DataType::kFloat32, 4);
    const Buffer dx = poison(DataType::kFloat32, 4);
    const bool is_squared = kind == ActivationKind::kSquaredRelu;
    backend().activation({.kind = kind, .x = x, .y = y, .rows = 2});
    backend().activation_backward(
        {.kind = kind, .x = x, .dy = put(DataType::kFloat32, {1, 1, 1, 1}), .dx = dx, .rows = 2});
    EXPECT_EQ(get(y), (Values{0.0, 0.0, is_squared ? 4.0 : 2.0, 0.0}));
    EXPECT_EQ(get(dx), (Values{0.0, 0.0, is_squared ? 4.0 : 1.0, 0.0}));
  }
}

TEST_F(ActivationBackward, EqualsTheDerivativeInEveryTypeInPlaceToo) {
  for_activations(
      [&](DataType type, ActivationKind kind, bool is_gated, const ActivationShape& shape) {
        const auto& [rows, width] = shape;
        const std::int64_t in_row = is_gated ? 2 * width : width;
        // Far from zero σ(1 − σ) cancels before it is multiplied by dy, by x and by a value.
        const double deviation = rows * width < 100 ? 1.0 : 3.0;
        const double units = (deviation == 1.0 ? 16.0 : 320.0) * (is_gated ? 4.0 : 1.0);
        const Values x = random_values(rows * in_row, 1, type, deviation);
        const Values dy = random_values(rows * width, 2, type);
        const Buffer in = put(type, x);
        const Buffer gradient = put(type, dy);
        const Buffer dx = poison(type, rows * in_row);
        const ActivationBackwardCall call{
            .kind = kind, .is_gated = is_gated, .x = in, .dy = gradient, .dx = dx, .rows = rows};
        backend().activation_backward(call);
        const Values apart = get(dx);
        // A derivative such as 1 − tanh² is a difference of terms of order 1.
        const double scale = kind == ActivationKind::kTanh ? 1.0 : 0.1;
        expect_near(apart, naive_activation_gradient(kind, is_gated, x, dy, width), type,
                    {.units = units, .scale = scale}, "dx");
        if (!is_gated) {
          ActivationBackwardCall over_dy = call;
          over_dy.dx = over_dy.dy = put(type, dy);
          backend().activation_backward(over_dy);
          EXPECT_EQ(get(over_dy.dy), apart);
        }
        ActivationBackwardCall over_x = call;
        over_x.dx = in;
        backend().activation_backward(over_x);
        EXPECT_EQ(get(in), apart);
      });
}

TEST_F(ActivationBackward, EqualsFiniteDifferences) {
  const DataType type = widest_type();
  constexpr std::int64_t rows = 3;
  constexpr std::int64_t width = 19;
  for (const ActivationKind kind : kActivationKinds) {
    for (const bool is_gated : {false, true}) {
      const Values x = random_values(rows * width * (is_gated ? 2 : 1), 1, type);
      const Values dy = random_values(rows * width, 2, type);
      const Buffer dx = poison(type, static_cast<std::int64_t>(x.size()));
      backend().activation_backward({.kind = kind,
                                     .is_gated = is_gated,
                                     .x = put(type, x),
                                     .dy = put(type, dy),
                                     .dx = dx,
                                     .rows = rows});
      expect_gradient(
          get(dx), x,
          [&](const Values& moved) {
            return dot(naive_activation(kind, is_gated, moved, width), dy);
          },
          trace_of(type, kind, is_gated, {rows, width}));
    }
  }
}

}  // namespace
}  // namespace ptdp
