// AdamW by hand arithmetic, and the norm of gradients.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/host_values.h"

namespace ptdp {
namespace {

struct State {
  Values theta, m, v, gradient;
};

State stepped(const AdamW& settings, State state) {
  const auto t = static_cast<double>(settings.step);
  for (std::size_t i = 0; i < state.theta.size(); ++i) {
    const double g = state.gradient[i] * settings.gradient_scale;
    state.m[i] = settings.beta1 * state.m[i] + (1.0 - settings.beta1) * g;
    state.v[i] = settings.beta2 * state.v[i] + (1.0 - settings.beta2) * g * g;
    const double m_hat = state.m[i] / (1.0 - std::pow(settings.beta1, t));
    const double v_hat = state.v[i] / (1.0 - std::pow(settings.beta2, t));
    state.theta[i] -= settings.learning_rate * (m_hat / (std::sqrt(v_hat) + settings.epsilon) +
                                                settings.weight_decay * state.theta[i]);
  }
  return state;
}

// First step from zero moments: m̂ = g, v̂ = g², so that each weight moves by lr against the sign of
// its gradient, and by lr·λ·θ. By hand: 1 − 0.1·(2/2 + 0.5·1) = 0.85.
TEST(AdamWStep, MovesByTheLearningRateOnTheFirstStep) {
  CpuBackend backend;
  const AdamW settings{.learning_rate = 0.1, .epsilon = 0.0, .weight_decay = 0.5};
  const Tensor master = tensor_of(backend, kDouble, {1.0, -1.0});
  const Tensor m = tensor_of(backend, kDouble, {0.0, 0.0});
  const Tensor v = tensor_of(backend, kDouble, {0.0, 0.0});
  const Tensor gradient = tensor_of(backend, kDouble, {2.0, 3.0});
  const AdamWSlice slice{master, m, v, gradient, master};
  backend.adamw(settings, {&slice, 1});
  // −1 − 0.1·(3/3 + 0.5·(−1)) = −1.05; m = 0.1·g; v = 0.05·g².
  expect_close(read_values(master), {0.85, -1.05}, 1e-15, 1.0, "weights");
  expect_close(read_values(m), {0.2, 0.3}, 1e-15, 1.0, "first moment");
  expect_close(read_values(v), {0.2, 0.45}, 1e-15, 1.0, "second moment");
}

// By hand as above: with decay 1 − 0.1·(1 + 0.5) = 0.85, without 1 − 0.1 = 0.9.
TEST(AdamWStep, DecaysOnlyTheSlicesThatDecay) {
  CpuBackend backend;
  const Tensor master = tensor_of(backend, kDouble, {1.0, 1.0});
  const Tensor m = tensor_of(backend, kDouble, {0.0, 0.0});
  const Tensor v = tensor_of(backend, kDouble, {0.0, 0.0});
  const Tensor gradient = tensor_of(backend, kDouble, {2.0, 2.0});
  const auto slice = [&](std::int64_t element, bool decays) {
    const auto part = [=](const Tensor& all) { return all.buffer().slice(element, 1); };
    return AdamWSlice{part(master), part(m), part(v), part(gradient), part(master), decays};
  };
  const std::array slices = {slice(0, true), slice(1, false)};
  backend.adamw({.learning_rate = 0.1, .epsilon = 0.0, .weight_decay = 0.5}, slices);
  expect_close(read_values(master), {0.85, 0.9}, 1e-15, 1.0, "weights");
}

TEST(AdamWStep, FollowsTheAlgorithmOverSeveralStepsInEveryType) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const DataType accumulator = accumulator_of(type);
    constexpr std::int64_t size = 131;
    State state{random_values(size, 1, accumulator), Values(size, 0.0), Values(size, 0.0), {}};
    const Tensor master = tensor_of(backend, accumulator, state.theta);
    const Tensor m = tensor_of(backend, accumulator, state.m);
    const Tensor v = tensor_of(backend, accumulator, state.v);
    const Tensor weights = poisoned(backend, type, size);
    for (int step = 1; step <= 5; ++step) {
      const AdamW settings{
          .learning_rate = 0.01 * step, .weight_decay = 0.1, .step = step, .gradient_scale = 0.25};
      state.gradient = random_values(size, 10 + step, accumulator);
      state = stepped(settings, state);
      const Tensor gradient = tensor_of(backend, accumulator, state.gradient);
      const AdamWSlice slice{master, m, v, gradient, weights};
      backend.adamw(settings, {&slice, 1});
    }
    const double unit = rounding_of(accumulator);
    expect_close(read_values(master), state.theta, 64.0 * unit, 1.0, "weights");
    expect_close(read_values(m), state.m, 64.0 * unit, 0.01, "first moment");
    expect_close(read_values(v), state.v, 64.0 * unit, 0.01, "second moment");
    EXPECT_EQ(read_values(weights), rounded(read_values(master), type));
  }
}

TEST(AddSquares, SumsInF64AndAddsToTheTotal) {
  CpuBackend backend;
  // 3e5 squares of 1e-3 each, whose sum would drift in f32; and 2^100, whose square is no f32.
  const Tensor small = tensor_of(backend, DataType::kFloat32, Values(300'000, 0.03125));
  const Tensor total = tensor_of(backend, kDouble, {1.0});
  backend.add_squares(small, total);
  EXPECT_EQ(read_values(total)[0], 1.0 + 300'000 * 0.03125 * 0.03125);
  const Tensor large = tensor_of(backend, DataType::kFloat32, {0x1p100});
  backend.fill(total, 0.0);
  backend.add_squares(large, total);
  EXPECT_EQ(read_values(total)[0], 0x1p200);
  backend.add_squares(Tensor(), total);
  EXPECT_EQ(read_values(total)[0], 0x1p200);
}

TEST(AddSquares, ShowsWhatIsNotFinite) {
  CpuBackend backend;
  for (const DataType type : {kDouble, DataType::kFloat32}) {
    for (const double fault :
         {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
      Values x(100, 1.0);
      x[77] = fault;
      const Tensor total = tensor_of(backend, kDouble, {0.0});
      backend.add_squares(tensor_of(backend, type, x), total);
      EXPECT_FALSE(std::isfinite(read_values(total)[0]));
    }
  }
}

}  // namespace
}  // namespace ptdp
