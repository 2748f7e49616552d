// Element-wise operations, bias and GELU of the host's backend against naive f64.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/host_values.h"

namespace ptdp {
namespace {

struct Shape {
  std::int64_t rows = 0;
  std::int64_t width = 0;
};
constexpr std::array<Shape, 7> kShapes = {
    {{0, 5}, {1, 1}, {1, 37}, {3, 16}, {5, 129}, {70, 3}, {200, 33}}};

/// 0.5·x·(1 + tanh u) in extended precision as x/(1 + e^(−2u)), which does not cancel where tanh
/// nears −1.
double gelu(double x) {
  const long double u = std::sqrt(2.0L / 3.14159265358979323846L) * (x + 0.044715L * x * x * x);
  return static_cast<double>(x / (1.0L + std::exp(-2.0L * u)));
}

TEST(Convert, RoundsEveryPairOfTypesToNearestEven) {
  CpuBackend backend;
  Values values = random_values(3000, 1);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ldexp(values[i], static_cast<int>(i % 60) - 30);
  }
  // Ties, their neighbours in f64, subnormal numbers, what overflows, signed zeros.
  for (const double x :
       {1.0 + 0x1p-8, 1.0 + 0x1p-8 + 0x1p-50, 1.0 + 0x3p-8 - 0x1p-50, 1.0 + 0x1p-11,
        1.0 + 0x1p-11 + 0x1p-45, 1.0 + 0x3p-11 - 0x1p-45, 0x1p-25, 0x1p-25 + 0x1p-60, 0x1.8p-24,
        0x1p-134, 0x1.8p-133, 65519.99, 65520.0, 3.39e38, 3.4e38, 1e300, 0.0, -0.0}) {
    values.push_back(x);
    values.push_back(-x);
  }
  for (const DataType from : kWorkingTypes) {
    const Values exact = rounded(values, from);
    const Tensor x = tensor_of(backend, from, exact);
    for (const DataType to : kWorkingTypes) {
      const Tensor y = poisoned(backend, to, x.buffer().size);
      backend.convert(x, y);
      const Values found = read_values(y);
      for (std::size_t i = 0; i < exact.size(); ++i) {
        ASSERT_EQ(found[i], rounded(exact[i], to))
            << exact[i] << " from " << name_of(from) << " to " << name_of(to);
        ASSERT_EQ(std::signbit(found[i]), std::signbit(exact[i]));
      }
    }
  }
}

TEST(Convert, KeepsAllHalfPrecisionNumbersThroughF32) {
  CpuBackend backend;
  for (const DataType type : {DataType::kBFloat16, DataType::kFloat16}) {
    const Tensor halves(backend, type, 65536);
    for (int bits = 0; bits < 65536; ++bits) {
      elements<std::uint16_t>(halves)[bits] = static_cast<std::uint16_t>(bits);
    }
    const Tensor wide = poisoned(backend, DataType::kFloat32, 65536);
    const Tensor back = poisoned(backend, type, 65536);
    backend.convert(halves, wide);
    backend.convert(wide, back);
    for (int bits = 0; bits < 65536; ++bits) {
      const auto half = static_cast<std::uint16_t>(bits);
      const double expected = half_value(half, type);
      const auto value = static_cast<double>(elements<float>(wide)[bits]);
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(value)) << bits;
        ASSERT_TRUE(std::isnan(half_value(elements<std::uint16_t>(back)[bits], type))) << bits;
      } else {
        ASSERT_EQ(value, expected) << bits;
        ASSERT_EQ(elements<std::uint16_t>(back)[bits], half) << bits;
      }
    }
  }
}

TEST(Fill, FillsEveryTypeWithTheRoundedValue) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const Tensor x = poisoned(backend, type, 67);
    backend.fill(x, 0.1);
    EXPECT_EQ(read_values(x), Values(67, rounded(0.1, type))) << name_of(type);
  }
  const Tensor integers(backend, DataType::kInt32, 5);
  backend.fill(integers, -7.0);
  EXPECT_EQ(read_values(integers), Values(5, -7.0));
}

TEST(Copy, MovesElementsInOutAndBetweenBuffers) {
  CpuBackend backend;
  const std::vector<float> source = {1.5F, -2.0F, 3.25F};
  const Tensor x(backend, DataType::kFloat32, 3);
  const Tensor y(backend, DataType::kFloat32, 3);
  std::vector<float> sink(3);
  backend.copy_in(source.data(), x);
  backend.copy(x, y);
  backend.copy_out(y, sink.data());
  EXPECT_EQ(sink, source);
  backend.copy(Buffer{}, Buffer{});  // nothing, from nowhere
}

TEST(Elementwise, AddMaximumAndScaleRoundTheExactResultOnce) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const Values a = random_values(301, 1, type);
    const Values b = random_values(301, 2, type);
    const Tensor x = tensor_of(backend, type, a);
    const Tensor sum = tensor_of(backend, type, b);
    const Tensor most = tensor_of(backend, type, b);
    const Tensor product = tensor_of(backend, type, a);
    backend.add(x, sum);
    backend.maximum(x, most);
    backend.scale(product, 0.37);
    const DataType accumulator = accumulator_of(type);
    const double factor = rounded(0.37, accumulator);
    for (std::size_t i = 0; i < a.size(); ++i) {
      EXPECT_EQ(read_values(sum)[i], rounded(rounded(a[i] + b[i], accumulator), type));
      EXPECT_EQ(read_values(most)[i], std::max(a[i], b[i]));
      EXPECT_EQ(read_values(product)[i], rounded(rounded(a[i] * factor, accumulator), type));
    }
  }
}

TEST(Maximum, KeepsWhatIsNotANumberFromEitherSide) {
  CpuBackend backend;
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor x = tensor_of(backend, kDouble, {nan, 1.0});
  const Tensor to = tensor_of(backend, kDouble, {1.0, nan});
  backend.maximum(x, to);
  EXPECT_TRUE(std::isnan(read_values(to)[0]));
  EXPECT_TRUE(std::isnan(read_values(to)[1]));
}

TEST(Bias, IsAddedToEachRowAndItsGradientSumsTheRows) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const DataType accumulator = accumulator_of(type);
    for (const auto& [rows, width] : kShapes) {
      const Values x = random_values(rows * width, 1, type);
      const Values b = random_values(width, 2, type);
      const Values before = random_values(width, 3, accumulator);
      const Tensor y = tensor_of(backend, type, x);
      const Tensor gradient = tensor_of(backend, accumulator, before);
      backend.add_bias(y, tensor_of(backend, type, b), rows);
      backend.bias_gradient(tensor_of(backend, type, x), gradient, rows);
      Values sums = x;
      Values expected = before;
      for (std::int64_t i = 0; i < rows * width; ++i) {
        sums[i] += b[i % width];
        expected[i % width] += x[i];
      }
      expect_close(read_values(y), sums, 2.0 * rounding_of(type), 1e-3, "bias");
      // Each of 200 terms of order 1 costs a rounding of a sum of order √200 at most.
      expect_close(read_values(gradient), expected, 100.0 * rounding_of(accumulator), 1.0,
                   "gradient");
    }
  }
}

TEST(Gelu, EqualsTheDefinitionAfterTheBiasWasAdded) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    for (const auto& [rows, width] : kShapes) {
      Values x = random_values(rows * width, 1);
      for (double& value : x) {
        value *= 3.0;
      }
      x = rounded(x, type);
      const Values b = random_values(width, 2, type);
      for (const bool has_bias : {true, false}) {
        const Tensor in = tensor_of(backend, type, x);
        const Tensor y = poisoned(backend, type, rows * width);
        const Tensor bias = tensor_of(backend, type, has_bias ? b : Values{});
        backend.bias_gelu(in, bias, y, rows);
        const Values sums = read_values(in);
        Values expected(x.size());
        for (std::size_t i = 0; i < x.size(); ++i) {
          const double sum =
              has_bias ? rounded(rounded(x[i] + b[i % b.size()], accumulator_of(type)), type)
                       : x[i];
          ASSERT_EQ(sums[i], sum);
          expected[i] = gelu(sum);
        }
        const double tolerance = 1.01 * rounding_of(type) + 8.0 * rounding_of(accumulator_of(type));
        expect_close(read_values(y), expected, tolerance, 0.1, std::string(name_of(type)));
      }
    }
  }
}

TEST(Gelu, IsAccurateFarFromZeroOnBothSides) {
  CpuBackend backend;
  Values x;
  for (int i = -400; i <= 400; ++i) {
    x.push_back(0.05 * i);
  }
  for (const DataType type : {kDouble, DataType::kFloat32}) {
    const Values exact = rounded(x, type);
    const Tensor y = poisoned(backend, type, static_cast<std::int64_t>(x.size()));
    backend.bias_gelu(tensor_of(backend, type, exact), {}, y, 1);
    Values expected;
    for (const double value : exact) {
      expected.push_back(gelu(value));
    }
    // Relative to 1 here; the exponent −2u of order 100 carries a rounding of its own.
    expect_close(read_values(y), expected, 4.0 * rounding_of(type), 1.0,
                 std::string(name_of(type)));
  }
}

TEST(GeluBackward, EqualsFiniteDifferencesInPlaceToo) {
  CpuBackend backend;
  const Values x = random_values(57, 1);
  const Values dy = random_values(57, 2);
  const Values expected = numeric_gradient(x, [&](const Values& moved) {
    const Tensor y = poisoned(backend, kDouble, 57);
    backend.bias_gelu(tensor_of(backend, kDouble, moved), {}, y, 1);
    return dot(read_values(y), dy);
  });
  const Tensor in = tensor_of(backend, kDouble, x);
  const Tensor gradient = tensor_of(backend, kDouble, dy);
  const Tensor dx = poisoned(backend, kDouble, 57);
  backend.gelu_backward(in, gradient, dx);
  expect_close(read_values(dx), expected, 1e-6, 1.0, "apart");
  backend.gelu_backward(in, gradient, gradient);
  EXPECT_EQ(read_values(gradient), read_values(dx));
  backend.gelu_backward(in, tensor_of(backend, kDouble, dy), in);
  EXPECT_EQ(read_values(in), read_values(dx));
}

TEST(GeluBackward, RoundsTheDerivativeInEveryType) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const Values x = random_values(203, 1, type);
    const Values dy = random_values(203, 2, type);
    const Tensor dx = poisoned(backend, type, 203);
    backend.gelu_backward(tensor_of(backend, type, x), tensor_of(backend, type, dy), dx);
    Values expected(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double root = std::sqrt(2.0 / M_PI);
      const double t = std::tanh(root * (x[i] + 0.044715 * x[i] * x[i] * x[i]));
      expected[i] = dy[i] * (0.5 * (1.0 + t) + 0.5 * x[i] * (1.0 - t * t) * root *
                                                   (1.0 + 3.0 * 0.044715 * x[i] * x[i]));
    }
    expect_close(read_values(dx), expected,
                 1.01 * rounding_of(type) + 16.0 * rounding_of(accumulator_of(type)), 0.1,
                 std::string(name_of(type)));
  }
}

}  // namespace
}  // namespace ptdp
