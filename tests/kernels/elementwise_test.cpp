// Element-wise operations, bias and GELU against exact rounding and their definitions in f64.
#include <gtest/gtest.h>

#include "tests/kernels/finite_differences.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

using Convert = OnBackend;
using Copy = OnBackend;
using Fill = OnBackend;
using Elementwise = OnBackend;
using Maximum = OnBackend;
using Bias = OnBackend;
using Gelu = OnBackend;
using GeluBackward = OnBackend;

struct Shape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};
// Whole vectors of 16 bytes of every type, of f32 only, of none; more rows than are summed at once.
constexpr std::array<Shape, 12> kShapes = {{{0, 5},
                                            {1, 1},
                                            {1, 37},
                                            {3, 16},
                                            {5, 129},
                                            {5, 1032},
                                            {63, 260},
                                            {65, 129},
                                            {70, 3},
                                            {200, 33},
                                            {300, 8},
                                            {1037, 3}}};

/// Expects equal values: signs of zeros must agree, and NaN must be where NaN is expected.
void expect_identical(const Values& found, const Values& expected) {
  ASSERT_EQ(found.size(), expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) {
    ASSERT_TRUE(std::isnan(expected[i]) ? std::isnan(found[i])
                                        : found[i] == expected[i] &&
                                              std::signbit(found[i]) == std::signbit(expected[i]))
        << "element " << i << " is " << found[i] << ", expected " << expected[i];
  }
}

TEST_F(Convert, RoundsEveryPairOfTypesToNearestEven) {
  Values values = random_values(3000, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i % 60) - 30);
  }
  // Ties, their neighbors in f64, subnormal numbers, what overflows, signed zeros, infinities.
  for (const double x : {1.0 + 0x1p-8, 1.0 + 0x1p-8 + 0x1p-50, 1.0 + 0x3p-8 - 0x1p-50,
                         1.0 + 0x1p-11, 1.0 + 0x1p-11 + 0x1p-45, 1.0 + 0x3p-11 - 0x1p-45, 0x1p-25,
                         0x1p-25 + 0x1p-60, 0x1.8p-24, 0x1p-134, 0x1.8p-133, 65519.99, 65520.0,
                         3.39e38, 3.4e38, 1e300, 0.0, std::numeric_limits<double>::infinity()}) {
    values.push_back(x);
    values.push_back(-x);
  }
  values.insert(values.end(), 17, std::nan(""));
  for (const DataType from : kWorkingTypes) {
    const Values exact = rounded(values, from);
    const Buffer x = put(from, exact);
    for (const DataType to : kWorkingTypes) {
      SCOPED_TRACE(testing::Message() << name_of(from) << " to " << name_of(to));
      const Buffer y = put(to, Values(exact.size(), 1.0));
      backend().convert(x, y);
      expect_identical(get(y), rounded(exact, to));
    }
  }
}

TEST_F(Convert, KeepsAllHalfPrecisionNumbersThroughF32) {
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    Values halves;
    for (int bits = 0; bits < 65536; ++bits) {
      halves.push_back(half_value(static_cast<std::uint16_t>(bits), type));
    }
    const Buffer wide = put(DataType::kFloat32, Values(65536, 1.0));
    const Buffer back = put(type, Values(65536, 1.0));
    backend().convert(put(type, halves), wide);
    backend().convert(wide, back);
    expect_identical(get(wide), halves);
    expect_identical(get(back), halves);
  }
}

TEST_F(Copy, MovesElementsOfEveryTypeInOutAndBetweenBuffers) {
  for (const DataType type : {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16,
                              DataType::kFloat16, DataType::kInt32}) {
    const Values values = {1.0, -2.0, 3.0, 0.0, 5.0};
    const Buffer to = put(type, Values(5, 7.0));
    backend().copy(put(type, values), to);
    EXPECT_EQ(get(to), values) << name_of(type);
  }
  backend().copy(Buffer{}, Buffer{});  // nothing, from nowhere
}

TEST_F(Fill, FillsEveryTypeWithTheRoundedValue) {
  for (const DataType type : kWorkingTypes) {
    for (const double value : {0.1, 0.0, -0.0}) {
      SCOPED_TRACE(name_of(type));
      const Buffer x = poison(type, 67);
      backend().fill(x, value);
      expect_identical(get(x), Values(67, rounded(value, type)));
    }
  }
  for (const double value : {-7.0, 0.0}) {
    const Buffer integers = put(DataType::kInt32, Values(5, 1.0));
    backend().fill(integers, value);
    EXPECT_EQ(get(integers), Values(5, value));
  }
}

TEST_F(Elementwise, AddMaximumAndScaleRoundTheExactResultOnce) {
  for (const DataType type : kWorkingTypes) {
    const DataType accumulator = accumulator_of(type);
    for (const std::int64_t size : {1, 5, 301}) {
      const Values a = random_values(size, 1, type);
      const Values b = random_values(size, 2, type);
      const Buffer x = put(type, a);
      const Buffer sum = put(type, b);
      const Buffer most = put(type, b);
      const Buffer product = put(type, a);
      backend().add(x, sum);
      backend().maximum(x, most);
      backend().scale(product, 0.37);
      Values sums;
      Values maxima;
      Values products;
      for (std::size_t i = 0; i < a.size(); ++i) {
        sums.push_back(rounded(rounded(a[i] + b[i], accumulator), type));
        maxima.push_back(std::max(a[i], b[i]));
        products.push_back(rounded(rounded(a[i] * rounded(0.37, accumulator), accumulator), type));
      }
      EXPECT_EQ(get(sum), sums) << name_of(type);
      EXPECT_EQ(get(most), maxima) << name_of(type);
      EXPECT_EQ(get(product), products) << name_of(type);
    }
  }
}

TEST_F(Elementwise, AddsAndComparesIntegersExactly) {
  const Buffer x = put(DataType::kInt32, {16777217, -3, 5, 8, 1});
  const Buffer sum = put(DataType::kInt32, {16777216, 2, 5, -9, 0});
  const Buffer most = put(DataType::kInt32, {16777216, 2, 5, -9, 0});
  backend().add(x, sum);
  backend().maximum(x, most);
  EXPECT_EQ(get(sum), (Values{33554433, -1, 10, -1, 1}));
  EXPECT_EQ(get(most), (Values{16777217, 2, 5, 8, 1}));
}

// Slices that begin anywhere; their neighbors stay as they are.
TEST_F(Elementwise, WorksOnSlicesOfAnySizeThatBeginAnywhere) {
  for (const DataType type : computed_types()) {
    const Values x = random_values(64, 1, type);
    for (std::int64_t first = 0; first < 9; ++first) {
      for (const std::int64_t size : {0, 1, 7, 8, 31}) {
        const Buffer to = put(type, x);
        backend().add(put(type, x).slice(3, size), to.slice(first, size));
        backend().fill(to.slice(first + size, 2), 0.0);
        backend().fill(to.slice(first + size + 2, 9), -0.1);
        Values expected = x;
        for (std::int64_t i = 0; i < size; ++i) {
          expected[first + i] =
              rounded(rounded(x[3 + i] + x[first + i], accumulator_of(type)), type);
        }
        for (std::int64_t i = 0; i < 11; ++i) {
          expected[first + size + i] = i < 2 ? 0.0 : rounded(-0.1, type);
        }
        ASSERT_EQ(get(to), expected) << name_of(type) << " " << first << " " << size;
      }
    }
  }
}

TEST_F(Maximum, KeepsWhatIsNotANumberFromEitherSide) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DataType type : kWorkingTypes) {
    const Buffer to = put(type, {1.0, nan, nan, -2.0});
    backend().maximum(put(type, {nan, 1.0, nan, -1.0}), to);
    expect_identical(get(to), {nan, nan, nan, -1.0});
  }
}

TEST_F(Bias, IsAddedToEachRowAndItsGradientSumsTheRows) {
  for (const DataType type : computed_types()) {
    const DataType accumulator = accumulator_of(type);
    for (const auto& [rows, width] : kShapes) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << rows << "x" << width);
      const Values x = random_values(rows * width, 1, type);
      const Values b = random_values(width, 2, type);
      const Values before = random_values(width, 3, accumulator);
      const Buffer y = put(type, x);
      const Buffer gradient = put(accumulator, before);
      backend().add_bias(y, put(type, b), rows);
      backend().bias_gradient(put(type, x), gradient, rows);
      Values sums = x;
      Values expected = before;
      for (std::int64_t i = 0; i < rows * width; ++i) {
        sums[i] = rounded(rounded(x[i] + b[i % width], accumulator), type);
        expected[i % width] += x[i];
      }
      EXPECT_EQ(get(y), sums);
      // Each of 200 terms of order 1 costs a rounding of a sum of order √200 at most.
      expect_near(get(gradient), expected, accumulator, {.units = 100.0}, "gradient");
    }
  }
}

TEST_F(Bias, GradientSumsRowsInOneOrderHoweverTheyAreAligned) {
  constexpr std::int64_t rows = 517;
  constexpr std::int64_t width = 264;
  for (const DataType type : computed_types()) {
    const Values dy = random_values(rows * width, 1, type);
    const auto gradient_at = [&](std::int64_t offset) {
      const Buffer gradient = put(accumulator_of(type), Values(width, 0.0));
      backend().bias_gradient(put(type, dy, offset), gradient, rows);
      return get(gradient);
    };
    const Values expected = gradient_at(0);
    EXPECT_EQ(gradient_at(0), expected) << name_of(type);
    EXPECT_EQ(gradient_at(1), expected) << name_of(type);
  }
}

// 0.5·(1 + tanh u) = 1/(1 + e^(−2u)), which does not cancel where tanh nears −1; in extended
// precision.
constexpr long double kTwoRoots = 2.0L * 0.79788456080286535588L;  // 2·√(2/π)
long double sigmoid(long double x) {
  return 1.0L / (1.0L + std::exp(-x));
}
double gelu(double x) {
  return static_cast<double>(x * sigmoid(kTwoRoots * (x + 0.044715L * x * x * x)));
}
double gelu_derivative(double x) {
  const long double u = kTwoRoots * (x + 0.044715L * x * x * x);
  const long double du = kTwoRoots * (1.0L + 3.0L * 0.044715L * x * x);
  return static_cast<double>(sigmoid(u) + x * sigmoid(u) * sigmoid(-u) * du);
}

TEST_F(Gelu, EqualsTheDefinitionAfterTheBiasWasAdded) {
  for (const DataType type : computed_types()) {
    for (const auto& [rows, width] : kShapes) {
      const Values x = random_values(rows * width, 1, type, 3.0);
      const Values b = random_values(width, 2, type);
      for (const bool has_bias : {true, false}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << rows << "x" << width);
        const Buffer in = put(type, x);
        const Buffer y = poison(type, rows * width);
        backend().bias_gelu(in, has_bias ? put(type, b) : Buffer{}, y, rows);
        Values sums = x;
        Values expected;
        for (std::size_t i = 0; i < x.size(); ++i) {
          if (has_bias) {
            sums[i] = rounded(rounded(x[i] + b[i % b.size()], accumulator_of(type)), type);
          }
          expected.push_back(gelu(sums[i]));
        }
        EXPECT_EQ(get(in), sums);
        expect_near(get(y), expected, type, {.units = 8.0, .scale = 0.1}, "y");
      }
    }
  }
}

TEST_F(Gelu, IsAccurateFarFromZeroOnBothSides) {
  for (const DataType type : {widest_type(), DataType::kFloat32}) {
    Values x;
    Values expected;
    for (int i = -400; i <= 400; ++i) {
      x.push_back(rounded(0.05 * i, type));
      expected.push_back(gelu(x.back()));
    }
    const Buffer y = poison(type, static_cast<std::int64_t>(x.size()));
    backend().bias_gelu(put(type, x), {}, y, 1);
    // Relative to 1 here; the exponent −2u of order 100 carries a rounding of its own.
    expect_near(get(y), expected, type, {.units = 4.0}, std::string(name_of(type)));
    // Element by element; results near the smallest normal number may become 0.
    expect_close(get(y), expected, 3e-5, 1e-30, std::string(name_of(type)));
  }
}

TEST_F(GeluBackward, EqualsTheDerivativeInEveryTypeInPlaceToo) {
  for (const DataType type : computed_types()) {
    for (const auto& [size, deviation] : {std::pair{203, 1.0}, {1, 3.0}, {37, 3.0}, {1000, 3.0}}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << size);
      const Values x = random_values(size, 1, type, deviation);
      const Values dy = random_values(size, 2, type);
      const Buffer in = put(type, x);
      const Buffer gradient = put(type, dy);
      const Buffer dx = poison(type, size);
      backend().gelu_backward(in, gradient, dx);
      Values expected;
      for (std::size_t i = 0; i < x.size(); ++i) {
        expected.push_back(dy[i] * gelu_derivative(x[i]));
      }
      const Values apart = get(dx);
      // Far from zero the derivative of the sigmoid, σ(1 − σ), cancels before it is multiplied.
      const double units = deviation == 1.0 ? 16.0 : 320.0;
      expect_near(apart, expected, type, {.units = units, .scale = 0.1}, "dx");
      backend().gelu_backward(in, gradient, gradient);
      EXPECT_EQ(get(gradient), apart);
      backend().gelu_backward(in, put(type, dy), in);
      EXPECT_EQ(get(in), apart);
    }
  }
}

TEST_F(GeluBackward, EqualsFiniteDifferences) {
  const DataType type = widest_type();
  const Values x = random_values(57, 1, type);
  const Values dy = random_values(57, 2, type);
  const Buffer dx = poison(type, 57);
  backend().gelu_backward(put(type, x), put(type, dy), dx);
  expect_gradient(
      get(dx), x,
      [&](const Values& moved) {
        Values y;
        std::transform(moved.begin(), moved.end(), std::back_inserter(y), gelu);
        return dot(y, dy);
      },
      "dx");
}

}  // namespace
}  // namespace ptdp
