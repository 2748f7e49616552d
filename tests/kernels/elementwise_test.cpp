// Element-wise operations, bias and soft caps against exact rounding and definitions in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

using Convert = OnBackend;
using Copy = OnBackend;
using Fill = OnBackend;
using Elementwise = OnBackend;
using Maximum = OnBackend;
using Bias = OnBackend;
using SoftCap = OnBackend;

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

// Widths and strides of vectors of 16 bytes, and ones that are not.
TEST_F(Copy, MovesColumnsBetweenRowsOfDifferentStrides) {
  struct Columns {
    std::int64_t width, from_stride, to_stride, from_first, to_first;
  };
  for (const DataType type : {DataType::kFloat64, DataType::kFloat32, DataType::kBFloat16,
                              DataType::kFloat16, DataType::kInt32}) {
    for (const Columns& shape :
         {Columns{16, 48, 32, 16, 8}, Columns{3, 5, 7, 1, 4}, Columns{0, 2, 2, 0, 0},
          Columns{16, 17, 16, 0, 0}, Columns{1, 1, 3, 0, 2}}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " width " << shape.width);
      const std::int64_t rows = 37;
      Values from(static_cast<std::size_t>(rows * shape.from_stride));
      std::iota(from.begin(), from.end(), 1.0);
      for (double& value : from) {
        value = std::fmod(value, 101.0);  // exact in every type
      }
      Values expected(static_cast<std::size_t>(rows * shape.to_stride), -1.0);
      const Buffer source = put(type, from);
      const Buffer target = put(type, expected);
      const auto rest = [](Buffer of, std::int64_t first) {
        return of.slice(first, of.size - first);
      };
      backend().copy_columns({rest(source, shape.from_first), shape.from_stride},
                             {rest(target, shape.to_first), shape.to_stride}, shape.width, rows);
      for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t i = 0; i < shape.width; ++i) {
          expected[static_cast<std::size_t>(row * shape.to_stride + shape.to_first + i)] =
              from[static_cast<std::size_t>(row * shape.from_stride + shape.from_first + i)];
        }
      }
      EXPECT_EQ(get(target), expected);
    }
  }
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

TEST_F(SoftCap, EqualsItsDefinitionFarFromZeroToo) {
  for (const DataType type : computed_types()) {
    for (const std::int64_t size : {0, 1, 7, 1000, 4099}) {
      for (const double cap : {0.5, 30.0}) {
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << size << " " << cap);
        Values x = random_values(size, 1, type, 20.0);
        const Buffer capped = put(type, x);
        backend().soft_cap(capped, cap);
        for (double& value : x) {
          value = cap * std::tanh(value / cap);
        }
        expect_near(get(capped), x, type, {.units = 8.0, .scale = cap}, "capped");
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
