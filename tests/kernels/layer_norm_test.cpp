// Layer norm of the host's backend against naive f64 and finite differences.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/host_values.h"

namespace ptdp {
namespace {

constexpr double kEpsilon = 1e-5;

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t h = 0;
};
constexpr std::array<NormShape, 7> kNormShapes = {
    {{0, 8}, {1, 1}, {1, 33}, {3, 64}, {4, 129}, {70, 5}, {150, 768}}};

struct Norm {
  Values y, mean, rstd;
};

Norm naive_norm(const Values& x, const Values& gamma, const Values& beta, std::int64_t rows) {
  const auto h = static_cast<std::int64_t>(gamma.size());
  Norm norm{Values(x.size()), Values(rows), Values(rows)};
  for (std::int64_t r = 0; r < rows; ++r) {
    double mean = 0.0;
    double variance = 0.0;
    for (std::int64_t c = 0; c < h; ++c) {
      mean += x[r * h + c] / static_cast<double>(h);
    }
    for (std::int64_t c = 0; c < h; ++c) {
      variance += std::pow(x[r * h + c] - mean, 2) / static_cast<double>(h);
    }
    norm.mean[r] = mean;
    norm.rstd[r] = 1.0 / std::sqrt(variance + kEpsilon);
    for (std::int64_t c = 0; c < h; ++c) {
      norm.y[r * h + c] = (x[r * h + c] - mean) * norm.rstd[r] * gamma[c] + beta[c];
    }
  }
  return norm;
}

TEST(LayerNorm, EqualsTheDefinitionInEveryType) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const DataType accumulator = accumulator_of(type);
    for (const auto& [rows, h] : kNormShapes) {
      const Values x = random_values(rows * h, 1, type);
      const Values gamma = random_values(h, 2, type);
      const Values beta = random_values(h, 3, type);
      const Tensor y = poisoned(backend, type, rows * h);
      const Tensor mean = poisoned(backend, accumulator, rows);
      const Tensor rstd = poisoned(backend, accumulator, rows);
      backend.layer_norm(tensor_of(backend, type, x), tensor_of(backend, type, gamma),
                         tensor_of(backend, type, beta), kEpsilon, y, mean, rstd, rows);
      const Norm expected = naive_norm(x, gamma, beta, rows);
      const double unit = rounding_of(accumulator);
      expect_close(read_values(mean), expected.mean, 16.0 * unit, 1.0, "mean");
      expect_close(read_values(rstd), expected.rstd, 16.0 * unit, 0.0, "rstd");
      expect_close(read_values(y), expected.y, 1.01 * rounding_of(type) + 32.0 * unit, 1.0, "y");
    }
  }
}

TEST(LayerNorm, IsAccurateFarFromZero) {
  CpuBackend backend;
  constexpr std::int64_t size = 1000;
  Values x = random_values(size, 1);
  for (double& value : x) {
    value = rounded(1e4 + value, DataType::kFloat32);
  }
  const Values ones(size, 1.0);
  const Values zeros(size, 0.0);
  const auto type = DataType::kFloat32;
  const Tensor y = poisoned(backend, type, size);
  const Tensor mean = poisoned(backend, type, 1);
  const Tensor rstd = poisoned(backend, type, 1);
  backend.layer_norm(tensor_of(backend, type, x), tensor_of(backend, type, ones),
                     tensor_of(backend, type, zeros), kEpsilon, y, mean, rstd, 1);
  // The mean of 1e4 is known to 1e-3 in f32: a shift of y, not a loss of its spread.
  expect_close(read_values(rstd), naive_norm(x, ones, zeros, 1).rstd, 1e-5, 0.0, "rstd");
}

/// dx, dgamma, dbeta of the backend in f64 where all begin at zero.
struct Gradients {
  Values dx, dgamma, dbeta;
};
Gradients backward(Backend& backend, DataType type, const Values& x, const Values& gamma,
                   const Values& dy, std::int64_t rows, const Gradients& before) {
  const DataType accumulator = accumulator_of(type);
  const Norm norm = naive_norm(x, gamma, Values(gamma.size(), 0.0), rows);
  const Tensor dx = tensor_of(backend, type, before.dx);
  const Tensor dgamma = tensor_of(backend, accumulator, before.dgamma);
  const Tensor dbeta = tensor_of(backend, accumulator, before.dbeta);
  backend.layer_norm_backward(tensor_of(backend, type, dy), tensor_of(backend, type, x),
                              tensor_of(backend, accumulator, norm.mean),
                              tensor_of(backend, accumulator, norm.rstd),
                              tensor_of(backend, type, gamma), dx, dgamma, dbeta, rows);
  return {read_values(dx), read_values(dgamma), read_values(dbeta)};
}

TEST(LayerNormBackward, EqualsFiniteDifferences) {
  CpuBackend backend;
  constexpr std::int64_t rows = 3;
  constexpr std::int64_t width = 19;
  const auto type = DataType::kFloat64;
  const Values x = random_values(rows * width, 1);
  const Values gamma = random_values(width, 2);
  const Values beta = random_values(width, 3);
  const Values dy = random_values(rows * width, 4);
  const auto loss = [&](const Values& in, const Values& g, const Values& b) {
    const Tensor y = poisoned(backend, type, rows * width);
    const Tensor mean = poisoned(backend, type, rows);
    const Tensor rstd = poisoned(backend, type, rows);
    backend.layer_norm(tensor_of(backend, type, in), tensor_of(backend, type, g),
                       tensor_of(backend, type, b), kEpsilon, y, mean, rstd, rows);
    return dot(read_values(y), dy);
  };
  const Gradients zeros{Values(x.size()), Values(gamma.size()), Values(gamma.size())};
  const Gradients found = backward(backend, type, x, gamma, dy, rows, zeros);
  expect_close(found.dx, numeric_gradient(x, [&](const Values& v) { return loss(v, gamma, beta); }),
               1e-6, 1.0, "x");
  expect_close(found.dgamma,
               numeric_gradient(gamma, [&](const Values& v) { return loss(x, v, beta); }), 1e-6,
               1.0, "gamma");
  expect_close(found.dbeta,
               numeric_gradient(beta, [&](const Values& v) { return loss(x, gamma, v); }), 1e-6,
               1.0, "beta");
}

TEST(LayerNormBackward, AddsTheAnalyticGradientInEveryType) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const DataType accumulator = accumulator_of(type);
    for (const auto& [rows, h] : kNormShapes) {
      const Values x = random_values(rows * h, 1, type);
      const Values gamma = random_values(h, 2, type);
      const Values dy = random_values(rows * h, 3, type);
      const Gradients before{random_values(rows * h, 4, type), random_values(h, 5, accumulator),
                             random_values(h, 6, accumulator)};
      const Gradients found = backward(backend, type, x, gamma, dy, rows, before);
      const Norm norm = naive_norm(x, gamma, Values(gamma.size(), 0.0), rows);
      Gradients expected = before;
      for (std::int64_t r = 0; r < rows; ++r) {
        double sum = 0.0;
        double product = 0.0;
        const double* const of_row = x.data() + r * h;
        const auto normal = [&, r](std::int64_t c) {
          return (of_row[c] - norm.mean[r]) * norm.rstd[r];
        };
        for (std::int64_t c = 0; c < h; ++c) {
          sum += dy[r * h + c] * gamma[c] / static_cast<double>(h);
          product += dy[r * h + c] * gamma[c] * normal(c) / static_cast<double>(h);
        }
        for (std::int64_t c = 0; c < h; ++c) {
          expected.dx[r * h + c] +=
              norm.rstd[r] * (dy[r * h + c] * gamma[c] - sum - normal(c) * product);
          expected.dgamma[c] += dy[r * h + c] * normal(c);
          expected.dbeta[c] += dy[r * h + c];
        }
      }
      const double unit = rounding_of(accumulator);
      // A row of one element has rstd 1/√ε = 316, which multiplies what should cancel.
      const double scale = h == 1 ? 1e3 : 1.0;
      expect_close(found.dx, expected.dx, 1.01 * rounding_of(type) + 32.0 * unit, scale, "dx");
      expect_close(found.dgamma, expected.dgamma, 400.0 * unit, 1.0, "dgamma");
      expect_close(found.dbeta, expected.dbeta, 400.0 * unit, 1.0, "dbeta");
    }
  }
}

}  // namespace
}  // namespace ptdp
