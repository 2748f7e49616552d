// Element-wise operations, bias and GELU of a GPU against exact rounding and the host in f64.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/device_values.h"

namespace ptdp {
namespace {

using ElementwiseOnGpu = OnGpu;

struct BiasShape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};
// Whole vectors of 16 bytes of every type, of f32 only, of none; more rows than are summed at once.
constexpr std::array<BiasShape, 9> kBiasShapes = {
    {{0, 5}, {1, 1}, {1, 37}, {3, 16}, {5, 1032}, {63, 260}, {65, 129}, {300, 8}, {1037, 3}}};

/// Ties, their neighbours in f64, subnormal numbers, what overflows, signed zeros, infinities.
Values hard_to_round() {
  Values values = random_values(1000, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i % 60) - 30);
  }
  for (const double x : {1.0 + 0x1p-8, 1.0 + 0x1p-8 + 0x1p-50, 1.0 + 0x3p-8 - 0x1p-50,
                         1.0 + 0x1p-11, 1.0 + 0x1p-11 + 0x1p-45, 1.0 + 0x3p-11 - 0x1p-45, 0x1p-25,
                         0x1p-25 + 0x1p-60, 0x1.8p-24, 0x1p-134, 0x1.8p-133, 65519.99, 65520.0,
                         3.39e38, 3.4e38, 1e300, 0.0, std::numeric_limits<double>::infinity()}) {
    values.push_back(x);
    values.push_back(-x);
  }
  return values;
}

TEST_F(ElementwiseOnGpu, ConvertsBetweenAllTypesRoundingOnceToNearestEven) {
  const Values values = hard_to_round();
  for (const DataType from : kWorkingTypes) {
    const Values exact = rounded(values, from);
    const Tensor x = on_gpu(from, exact);
    for (const DataType to : kWorkingTypes) {
      const Tensor y = poisoned_on_gpu(to, x.buffer().size);
      gpu().convert(x, y);
      const Values found = values_of(y);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        ASSERT_EQ(found[i], rounded(exact[i], to))
            << exact[i] << " from " << name_of(from) << " to " << name_of(to);
        ASSERT_EQ(std::signbit(found[i]), std::signbit(exact[i]));
      }
    }
  }
}

TEST_F(ElementwiseOnGpu, ConvertKeepsWhatIsNotANumber) {
  for (const DataType from : kWorkingTypes) {
    const Tensor x = poisoned_on_gpu(from, 17);
    for (const DataType to : kWorkingTypes) {
      const Tensor y(gpu(), to, 17);
      gpu().fill(y, 1.0);
      gpu().convert(x, y);
      for (const double value : values_of(y)) {
        ASSERT_TRUE(std::isnan(value)) << name_of(from) << " to " << name_of(to);
      }
    }
  }
}

// Slices that begin anywhere; their neighbours stay as they are.
TEST_F(ElementwiseOnGpu, WorksOnSlicesOfAnySizeThatBeginAnywhere) {
  for (const DataType type : kGpuTypes) {
    const Values x = random_values(64, 1, type);
    for (std::int64_t first = 0; first < 9; ++first) {
      for (const std::int64_t size : {0, 1, 7, 8, 31}) {
        const Tensor to = on_gpu(type, x);
        gpu().add(on_gpu(type, x).buffer().slice(3, size), to.buffer().slice(first, size));
        gpu().fill(to.buffer().slice(first + size, 2), 0.0);
        gpu().fill(to.buffer().slice(first + size + 2, 9), -0.1);
        Values expected = x;
        for (std::int64_t i = 0; i < size; ++i) {
          expected[first + i] =
              rounded(rounded(x[3 + i] + x[first + i], accumulator_of(type)), type);
        }
        for (std::int64_t i = 0; i < 11; ++i) {
          expected[first + size + i] = i < 2 ? 0.0 : rounded(-0.1, type);
        }
        ASSERT_EQ(values_of(to), expected) << name_of(type) << " " << first << " " << size;
      }
    }
  }
}

TEST_F(ElementwiseOnGpu, FillsEveryTypeWithTheRoundedValue) {
  for (const DataType type : kWorkingTypes) {
    for (const double value : {0.1, 0.0, -0.0}) {
      const Tensor x = poisoned_on_gpu(type, 67);
      gpu().fill(x, value);
      const Values found = values_of(x);
      EXPECT_EQ(found, Values(67, rounded(value, type))) << name_of(type);
      EXPECT_EQ(std::signbit(found[66]), std::signbit(value));
    }
  }
  for (const double value : {-7.0, 0.0}) {
    const Tensor integers(gpu(), DataType::kInt32, 5);
    gpu().fill(integers, value);
    EXPECT_EQ(values_of(integers), Values(5, value));
  }
}

TEST_F(ElementwiseOnGpu, AddsTakesMaximaAndScalesRoundingTheExactResultOnce) {
  for (const DataType type : kWorkingTypes) {
    for (const std::int64_t size : {1, 5, 301}) {
      const Values a = random_values(size, 1, type);
      const Values b = random_values(size, 2, type);
      const Tensor x = on_gpu(type, a);
      const Tensor sum = on_gpu(type, b);
      const Tensor most = on_gpu(type, b);
      const Tensor product = on_gpu(type, a);
      gpu().add(x, sum);
      gpu().maximum(x, most);
      gpu().scale(product, 0.37);
      const DataType accumulator = accumulator_of(type);
      Values sums(a.size());
      Values maxima(a.size());
      Values products(a.size());
      for (std::size_t i = 0; i < a.size(); ++i) {
        sums[i] = rounded(rounded(a[i] + b[i], accumulator), type);
        maxima[i] = std::max(a[i], b[i]);
        products[i] = rounded(rounded(a[i] * rounded(0.37, accumulator), accumulator), type);
      }
      EXPECT_EQ(values_of(sum), sums) << name_of(type);
      EXPECT_EQ(values_of(most), maxima) << name_of(type);
      EXPECT_EQ(values_of(product), products) << name_of(type);
    }
  }
}

TEST_F(ElementwiseOnGpu, AddsAndComparesIntegersExactly) {
  const Tensor x = on_gpu(DataType::kInt32, {16777217, -3, 5, 8, 1});
  const Tensor sum = on_gpu(DataType::kInt32, {16777216, 2, 5, -9, 0});
  const Tensor most = on_gpu(DataType::kInt32, {16777216, 2, 5, -9, 0});
  gpu().add(x, sum);
  gpu().maximum(x, most);
  EXPECT_EQ(values_of(sum), (Values{33554433, -1, 10, -1, 1}));
  EXPECT_EQ(values_of(most), (Values{16777217, 2, 5, 8, 1}));
}

TEST_F(ElementwiseOnGpu, MaximumKeepsWhatIsNotANumberFromEitherSide) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DataType type : kWorkingTypes) {
    const Tensor x = on_gpu(type, {nan, 1.0, nan, -1.0});
    const Tensor to = on_gpu(type, {1.0, nan, nan, -2.0});
    gpu().maximum(x, to);
    const Values found = values_of(to);
    EXPECT_TRUE(std::isnan(found[0]) && std::isnan(found[1]) && std::isnan(found[2]));
    EXPECT_EQ(found[3], -1.0);
  }
}

// More elements than a grid's threads take at once, one by one and by vectors.
TEST_F(ElementwiseOnGpu, GoesThroughMoreElementsThanThreads) {
  constexpr std::int64_t size = (1 << 22) + 1543;
  const Tensor x(gpu(), DataType::kFloat32, size + 1);
  gpu().fill(x, 1.5);
  gpu().scale(x.buffer().slice(1, size), 2.0);
  gpu().add(x.buffer().slice(0, size), x.buffer().slice(0, size));
  Values expected(size + 1, 6.0);
  expected[0] = expected[size] = 3.0;
  EXPECT_EQ(values_of(x), expected);

  constexpr std::int64_t width = 1025;
  constexpr std::int64_t rows = size / 3 / width;
  const Values bias = random_values(width, 2, DataType::kFloat32);
  gpu().add_bias(x.buffer().slice(1, rows * width), on_gpu(DataType::kFloat32, bias), rows);
  for (std::int64_t i = 0; i < rows * width; ++i) {
    expected[1 + i] = rounded(6.0 + bias[i % width], DataType::kFloat32);
  }
  EXPECT_EQ(values_of(x), expected);
}

TEST_F(ElementwiseOnGpu, AddsABiasToEachRowAndSumsRowsForItsGradient) {
  for (const DataType type : kGpuTypes) {
    const DataType accumulator = accumulator_of(type);
    for (const auto& [rows, width] : kBiasShapes) {
      const Values x = random_values(rows * width, 1, type);
      const Values b = random_values(width, 2, type);
      const Values before = random_values(width, 3, accumulator);
      const Tensor y = on_gpu(type, x);
      gpu().add_bias(y, on_gpu(type, b), rows);
      Values sums = x;
      for (std::int64_t i = 0; i < rows * width; ++i) {
        sums[i] = rounded(rounded(x[i] + b[i % width], accumulator), type);
      }
      EXPECT_EQ(values_of(y), sums) << name_of(type) << " " << rows << " " << width;

      const Tensor gradient = on_gpu(accumulator, before);
      gpu().bias_gradient(on_gpu(type, x), gradient, rows);
      const Tensor expected = tensor_of(host(), kDouble, before);
      host().bias_gradient(tensor_of(host(), kDouble, x), expected, rows);
      expect_near_in_norm(values_of(gradient), read_values(expected),
                          allowed_error(DataType::kFloat32), std::string(name_of(type)));
    }
  }
}

TEST_F(ElementwiseOnGpu, SumsRowsInOneOrderHoweverTheyAreAligned) {
  constexpr std::int64_t rows = 517;
  constexpr std::int64_t width = 264;
  for (const DataType type : kGpuTypes) {
    const Values x = random_values(rows * width + 1, 1, type);
    const Values moved(x.begin() + 1, x.end());
    const auto gradient_of = [&](const Buffer& dy) {
      const Tensor gradient(gpu(), DataType::kFloat32, width);
      gpu().fill(gradient, 0.0);
      gpu().bias_gradient(dy, gradient, rows);
      return values_of(gradient);
    };
    const Tensor aligned = on_gpu(type, moved);
    const Tensor misaligned = on_gpu(type, x);
    const Values expected = gradient_of(aligned);
    EXPECT_EQ(gradient_of(aligned), expected);
    EXPECT_EQ(gradient_of(misaligned.buffer().slice(1, rows * width)), expected);
  }
}

TEST_F(ElementwiseOnGpu, GeluAfterTheBiasEqualsTheHostsAndKeepsTheSum) {
  for (const DataType type : kGpuTypes) {
    for (const auto& [rows, width] : kBiasShapes) {
      Values x = random_values(rows * width, 1);
      for (double& value : x) {
        value *= 3.0;
      }
      x = rounded(x, type);
      const Values b = random_values(width, 2, type);
      for (const bool has_bias : {true, false}) {
        const Tensor in = on_gpu(type, x);
        const Tensor y = poisoned_on_gpu(type, rows * width);
        gpu().bias_gelu(in, has_bias ? on_gpu(type, b) : Tensor(), y, rows);
        Values sums = x;
        for (std::size_t i = 0; has_bias && i < x.size(); ++i) {
          sums[i] = rounded(rounded(x[i] + b[i % b.size()], DataType::kFloat32), type);
        }
        ASSERT_EQ(values_of(in), sums);
        const Tensor expected = poisoned(host(), kDouble, rows * width);
        host().bias_gelu(tensor_of(host(), kDouble, sums), {}, expected, rows);
        expect_near_in_norm(values_of(y), read_values(expected), allowed_error(type),
                            std::string(name_of(type)));
      }
    }
  }
}

TEST_F(ElementwiseOnGpu, GeluIsAccurateElementByElementFarFromZeroOnBothSides) {
  Values x;
  for (int i = -400; i <= 400; ++i) {
    x.push_back(rounded(0.03 * i, DataType::kFloat32));
  }
  const auto size = static_cast<std::int64_t>(x.size());
  const Tensor y = poisoned_on_gpu(DataType::kFloat32, size);
  gpu().bias_gelu(on_gpu(DataType::kFloat32, x), {}, y, 1);
  const Tensor expected = poisoned(host(), kDouble, size);
  host().bias_gelu(tensor_of(host(), kDouble, x), {}, expected, 1);
  // The argument of the exponential, up to 240, is rounded to f32; results near the smallest normal
  // number may become 0.
  expect_close(values_of(y), read_values(expected), 3e-5, 1e-30, "gelu");
}

TEST_F(ElementwiseOnGpu, GeluBackwardEqualsTheHostsAlsoInPlace) {
  for (const DataType type : kGpuTypes) {
    for (const std::int64_t size : {1, 37, 1000}) {
      Values x = random_values(size, 1);
      for (double& value : x) {
        value *= 3.0;
      }
      x = rounded(x, type);
      const Values dy = random_values(size, 2, type);
      const Tensor expected = poisoned(host(), kDouble, size);
      host().gelu_backward(tensor_of(host(), kDouble, x), tensor_of(host(), kDouble, dy), expected);
      const Tensor in = on_gpu(type, x);
      const Tensor gradient = on_gpu(type, dy);
      const Tensor dx = poisoned_on_gpu(type, size);
      gpu().gelu_backward(in, gradient, dx);
      const Values apart = values_of(dx);
      expect_near_in_norm(apart, read_values(expected), allowed_error(type),
                          std::string(name_of(type)));
      gpu().gelu_backward(in, gradient, gradient);
      EXPECT_EQ(values_of(gradient), apart);
      gpu().gelu_backward(in, on_gpu(type, dy), in);
      EXPECT_EQ(values_of(in), apart);
    }
  }
}

}  // namespace
}  // namespace ptdp
