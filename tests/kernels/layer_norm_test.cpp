// Layer norm against its definition in f64 and finite differences.
#include <gtest/gtest.h>

#include <array>

#include "tests/kernels/finite_differences.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

constexpr double kEpsilon = 1e-5;

struct NormShape {
  std::int64_t rows = 0;
  std::int64_t h = 0;
};
// Rows of one element; of whole chunks and not; that a GPU's registers hold, with two and four
// chunks to a thread, and that they do not hold; and more rows than a GPU has blocks.
constexpr std::array<NormShape, 15> kNormShapes = {{{0, 8},
                                                    {1, 1},
                                                    {1, 33},
                                                    {3, 5},
                                                    {3, 64},
                                                    {7, 129},
                                                    {70, 5},
                                                    {300, 8},
                                                    {150, 768},
                                                    {4, 1024},
                                                    {2, 8200},
                                                    {2, 16392},
                                                    {1, 25600},
                                                    {1, 33000},
                                                    {2500, 8}}};

/// y, mean and rstd, the results of the forward pass.
using Norm = std::array<Values, 3>;
/// dx, dgamma and dbeta, the results of the backward pass.
using NormGradients = std::array<Values, 3>;

/// The inputs of both passes; the statistics need not be those of x.
struct NormInputs {
  NormInputs(DataType type, const NormShape& shape, unsigned seed)
      : x(random_values(shape.rows * shape.h, seed, type)),
        gamma(random_values(shape.h, seed + 1, type)),
        beta(random_values(shape.h, seed + 2, type)),
        dy(random_values(shape.rows * shape.h, seed + 3, type)),
        mean(random_values(shape.rows, seed + 4, accumulator_of(type))),
        rstd(random_values(shape.rows, seed + 5, accumulator_of(type))),
        before{random_values(shape.rows * shape.h, seed + 6, type),
               random_values(shape.h, seed + 7, accumulator_of(type)),
               random_values(shape.h, seed + 8, accumulator_of(type))} {
    for (double& value : x) {
      value = rounded(3.0 + 2.0 * value, type);
    }
    for (double& value : rstd) {
      value = rounded(0.25 + std::abs(value), accumulator_of(type));
    }
  }

  Values x, gamma, beta, dy, mean, rstd;
  NormGradients before;  ///< What the gradients are added to.
};

Norm naive_norm(const Values& x, const Values& gamma, const Values& beta) {
  const std::size_t h = gamma.size();
  const std::size_t rows = x.size() / h;
  Norm norm{Values(x.size()), Values(rows), Values(rows)};
  auto& [y, means, rstds] = norm;
  for (std::size_t r = 0; r < rows; ++r) {
    long double sum = 0.0L;
    long double squares = 0.0L;
    for (std::size_t c = 0; c < h; ++c) {
      sum += x[r * h + c];
    }
    means[r] = static_cast<double>(sum / h);
    for (std::size_t c = 0; c < h; ++c) {
      squares += (x[r * h + c] - means[r]) * (x[r * h + c] - means[r]);
    }
    rstds[r] = 1.0 / std::sqrt(static_cast<double>(squares / h) + kEpsilon);
    for (std::size_t c = 0; c < h; ++c) {
      y[r * h + c] = (x[r * h + c] - means[r]) * rstds[r] * gamma[c] + beta[c];
    }
  }
  return norm;
}

NormGradients naive_gradients(const NormInputs& in) {
  const std::size_t h = in.gamma.size();
  NormGradients gradients = in.before;
  auto& [dx, dgamma, dbeta] = gradients;
  for (std::size_t r = 0; r < in.mean.size(); ++r) {
    const auto normal = [&](std::size_t c) { return (in.x[r * h + c] - in.mean[r]) * in.rstd[r]; };
    long double sum = 0.0L;
    long double product = 0.0L;
    for (std::size_t c = 0; c < h; ++c) {
      const double dnormal = in.dy[r * h + c] * in.gamma[c];
      sum += dnormal;
      product += dnormal * normal(c);
      dgamma[c] += in.dy[r * h + c] * normal(c);
      dbeta[c] += in.dy[r * h + c];
    }
    for (std::size_t c = 0; c < h; ++c) {
      const double dnormal = in.dy[r * h + c] * in.gamma[c];
      dx[r * h + c] +=
          in.rstd[r] * static_cast<double>(dnormal - sum / h - normal(c) * product / h);
    }
  }
  return gradients;
}

class LayerNorm : public OnBackend {
 protected:
  /// Returns the forward pass in buffers `offset` elements after an aligned address.
  Norm forward(DataType type, const NormInputs& in, std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const auto rows = static_cast<std::int64_t>(in.mean.size());
    const auto h = static_cast<std::int64_t>(in.gamma.size());
    const Buffer y = poison(type, static_cast<std::int64_t>(in.x.size()), offset);
    const Buffer mean = poison(accumulator, rows, offset);
    const Buffer rstd = poison(accumulator, rows, offset);
    backend().norm({.x = {put(type, in.x, offset), h},
                    .gamma = put(type, in.gamma, offset),
                    .beta = put(type, in.beta, offset),
                    .epsilon = kEpsilon,
                    .y = {y, h},
                    .mean = mean,
                    .rstd = rstd,
                    .rows = rows});
    return {get(y), get(mean), get(rstd)};
  }
  NormGradients backward(DataType type, const NormInputs& in, std::int64_t offset = 0) {
    const DataType accumulator = accumulator_of(type);
    const auto h = static_cast<std::int64_t>(in.gamma.size());
    const Buffer dx = put(type, in.before[0], offset);
    const Buffer dgamma = put(accumulator, in.before[1], offset);
    const Buffer dbeta = put(accumulator, in.before[2], offset);
    backend().norm_backward({.dy = {put(type, in.dy, offset), h},
                             .x = {put(type, in.x, offset), h},
                             .mean = put(accumulator, in.mean, offset),
                             .rstd = put(accumulator, in.rstd, offset),
                             .gamma = put(type, in.gamma, offset),
                             .dx = {dx, h},
                             .added = dx,
                             .dgamma = dgamma,
                             .dbeta = dbeta,
                             .rows = static_cast<std::int64_t>(in.mean.size())});
    return {get(dx), get(dgamma), get(dbeta)};
  }
};
using LayerNormBackward = LayerNorm;

TEST_F(LayerNorm, EqualsTheDefinitionInEveryType) {
  for_each_type_and_case(kNormShapes, [&](DataType type, const NormShape& shape) {
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << shape.rows << "x" << shape.h);
    const NormInputs in(type, shape, 1);
    const Norm found = forward(type, in);
    const Norm expected = naive_norm(in.x, in.gamma, in.beta);
    const DataType accumulator = accumulator_of(type);
    expect_near(found[0], expected[0], type, {.units = 32.0}, "y");
    expect_near(found[1], expected[1], accumulator, {.units = 16.0}, "mean");
    expect_near(found[2], expected[2], accumulator, {.units = 16.0, .scale = 0.0}, "rstd");
  });
}

TEST_F(LayerNorm, IsAccurateFarFromZero) {
  const DataType type = DataType::kFloat32;
  NormInputs in(type, {1, 1000}, 1);
  in.x = random_values(1000, 1);
  for (double& x : in.x) {
    x = rounded(1e4 + x, type);
  }
  // The mean of 1e4 is known to 1e-3 in f32: a shift of y, not a loss of its spread.
  expect_close(forward(type, in)[2], naive_norm(in.x, in.gamma, in.beta)[2], 1e-5, 0.0, "rstd");
}

TEST_F(LayerNorm, GivesTheSameBitsAgainAndAtAnyAlignmentForwardAndBackward) {
  constexpr std::array<NormShape, 4> shapes = {{{5, 776}, {300, 72}, {2, 8256}, {3, 77}}};
  for_each_type_and_case(shapes, [&](DataType type, const NormShape& shape) {
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << shape.rows << "x" << shape.h);
    const NormInputs in(type, shape, 4);
    const Norm norm = forward(type, in);
    const NormGradients gradients = backward(type, in);
    for (const std::int64_t offset : {0, 1, 4}) {
      EXPECT_EQ(forward(type, in, offset), norm) << "offset " << offset;
      EXPECT_EQ(backward(type, in, offset), gradients) << "offset " << offset;
    }
  });
}

TEST_F(LayerNormBackward, EqualsFiniteDifferences) {
  const DataType type = widest_type();
  NormInputs in(type, {3, 19}, 1);
  in.before = {Values(in.x.size()), Values(in.gamma.size()), Values(in.gamma.size())};
  const Norm norm = forward(type, in);
  in.mean = norm[1];
  in.rstd = norm[2];
  const NormGradients found = backward(type, in);
  const auto loss = [&](const Values& x, const Values& gamma, const Values& beta) {
    return dot(naive_norm(x, gamma, beta)[0], in.dy);
  };
  expect_gradient(
      found[0], in.x, [&](const Values& x) { return loss(x, in.gamma, in.beta); }, "x");
  expect_gradient(
      found[1], in.gamma, [&](const Values& gamma) { return loss(in.x, gamma, in.beta); }, "gamma");
  expect_gradient(
      found[2], in.beta, [&](const Values& beta) { return loss(in.x, in.gamma, beta); }, "beta");
}

TEST_F(LayerNormBackward, AddsTheGradientsOfAnyStatisticsInEveryType) {
  for_each_type_and_case(kNormShapes, [&](DataType type, const NormShape& shape) {
    const DataType accumulator = accumulator_of(type);
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << shape.rows << "x" << shape.h);
    NormInputs in(type, shape, 2);
    const NormGradients found = backward(type, in);
    const NormGradients expected = naive_gradients(in);
    expect_near_in_norm(found[0], expected[0], type, "dx");
    expect_near_in_norm(found[1], expected[1], accumulator, "dgamma");
    expect_near_in_norm(found[2], expected[2], accumulator, "dbeta");
  });
}

TEST_F(LayerNormBackward, AddsTheGradientsOfTheRowsStatisticsInEveryType) {
  for_each_type_and_case(kNormShapes, [&](DataType type, const NormShape& shape) {
    const DataType accumulator = accumulator_of(type);
    if (shape.h == 1 && !bounds_each_element()) {
      return;  // 1/√ε = 316 multiplies what should cancel
    }
    SCOPED_TRACE(testing::Message() << name_of(type) << " " << shape.rows << "x" << shape.h);
    NormInputs in(type, shape, 2);
    const Norm norm = naive_norm(in.x, in.gamma, in.beta);
    in.mean = rounded(norm[1], accumulator);
    in.rstd = rounded(norm[2], accumulator);
    const NormGradients found = backward(type, in);
    const NormGradients expected = naive_gradients(in);
    expect_near(found[0], expected[0], type, {.units = 32.0, .scale = shape.h == 1 ? 1e3 : 1.0},
                "dx");
    expect_near(found[1], expected[1], accumulator, {.units = 400.0}, "dgamma");
    expect_near(found[2], expected[2], accumulator, {.units = 400.0}, "dbeta");
  });
}

TEST_F(LayerNormBackward, GivesARowTheSameBitsWithoutTheOthers) {
  const DataType type = DataType::kBFloat16;
  const NormInputs all(type, {2500, 8}, 3);
  NormInputs last = all;
  for (Values* const values : {&last.x, &last.dy, &last.mean, &last.rstd, last.before.data()}) {
    values->erase(values->begin(),
                  values->end() - static_cast<std::ptrdiff_t>(values->size()) / 2500);
  }
  const Values dx = backward(type, all)[0];
  EXPECT_EQ(Values(dx.end() - 8, dx.end()), backward(type, last)[0]);
}

TEST_F(LayerNormBackward, OfNoRowsAddsNothing) {
  const NormInputs in(DataType::kBFloat16, {0, 16}, 6);
  EXPECT_EQ(backward(DataType::kBFloat16, in), in.before);
}

}  // namespace
}  // namespace ptdp
