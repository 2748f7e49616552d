// Tests of AdamW, of the norm of gradients, and of initial values.
#include <gtest/gtest.h>

#include <array>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/philox_reference.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

/// The values that a step takes: master, m, v and gradient.
using States = std::array<Values, 4>;
constexpr std::array<const char*, 5> kNamesOfStates = {"master", "first moment", "second moment",
                                                       "gradient", "weights"};

/// A slice of each of the states.
struct StepPart {
  std::int64_t first = 0;
  std::int64_t size = 0;
  bool decays = true;
};

/// Returns slices of any size and alignment, more than one launch takes. Between them lie elements
/// that belong to none.
std::vector<StepPart> many_parts() {
  std::vector<StepPart> parts;
  std::int64_t first = 0;
  for (int i = 0; i < 150; ++i) {
    const std::int64_t size = i % 50 == 7 ? 2500 : i % 9 == 0 ? 0 : 1 + 37 * i % 101;
    parts.push_back({first, size, i % 3 != 0});
    first += size + i % 5;
  }
  // At multiples of 16 bytes.
  first = (first + 15) / 16 * 16;
  for (const std::int64_t size : {1024, 4096, 5000, 4}) {
    parts.push_back({first, size, size != 4096});
    first += (size + 15) / 16 * 16;
  }
  return parts;
}

States random_states(const std::vector<StepPart>& parts, DataType type) {
  const std::int64_t size = parts.back().first + parts.back().size + 3;
  States states = {random_values(size, 1, type), random_values(size, 2, type),
                   random_values(size, 3, type), random_values(size, 4, type)};
  for (double& v : states[2]) {
    v = std::abs(v);
  }
  return states;
}

AdamW settings_of(std::int64_t step) {
  return {.learning_rate = 0.01 * static_cast<double>(step),
          .weight_decay = 0.1,
          .step = step,
          .gradient_scale = 0.25};
}

void step_by_definition(const AdamW& settings, const std::vector<StepPart>& parts, States& states) {
  auto& [theta, m, v, gradient] = states;
  const auto t = static_cast<double>(settings.step);
  for (const auto& [first, size, decays] : parts) {
    for (std::int64_t i = first; i < first + size; ++i) {
      const double g = gradient[i] * settings.gradient_scale;
      m[i] = settings.beta1 * m[i] + (1.0 - settings.beta1) * g;
      v[i] = settings.beta2 * v[i] + (1.0 - settings.beta2) * g * g;
      const double m_hat = m[i] / (1.0 - std::pow(settings.beta1, t));
      const double v_hat = v[i] / (1.0 - std::pow(settings.beta2, t));
      theta[i] -= settings.learning_rate * (m_hat / (std::sqrt(v_hat) + settings.epsilon) +
                                            (decays ? settings.weight_decay : 0.0) * theta[i]);
    }
  }
}

/// AdamW steps of a backend on states and on weights of another type, which are 7 before.
class Stepped {
 public:
  Stepped(Backend& backend, const States& states, DataType state, DataType weights)
      : backend_(backend), memory_(backend) {
    for (const Values& values : states) {
      buffers_.push_back(memory_.put(state, values));
    }
    buffers_.push_back(memory_.put(weights, Values(states[0].size(), 7.0)));
  }

  void take_gradient(const Values& gradient) {
    buffers_[3] = memory_.put(buffers_[3].type, gradient);
  }
  void step(const AdamW& settings, const std::vector<StepPart>& parts) {
    std::vector<AdamWSlice> slices;
    for (const auto& [first, size, decays] : parts) {
      const auto part = [&, first = first, size = size](std::size_t of) {
        return buffers_[of].slice(first, size);
      };
      slices.push_back({part(0), part(1), part(2), part(3), part(4), decays});
    }
    backend_.adamw(settings, slices);
  }
  /// Returns the states and the weights.
  [[nodiscard]] std::vector<Values> values() {
    std::vector<Values> all;
    for (const Buffer& buffer : buffers_) {
      all.push_back(memory_.get(buffer));
    }
    return all;
  }

 private:
  Backend& backend_;
  BuffersOf memory_;
  std::vector<Buffer> buffers_;
};

using AdamWStep = OnBackend;

class AddSquares : public OnBackend {
 protected:
  double sum_of_squares(const Buffer& x, double before = 0.0) {
    const Buffer total = put(kDouble, {before});
    backend().add_squares(x, total);
    return get(total)[0];
  }
};

using FillNormal = OnBackend;

// First step from zero moments: m̂ = g, v̂ = g², so that each weight moves by lr against the sign of
// its gradient, and by lr·λ·θ where it decays. By hand: 1 − 0.1·(2/2 + 0.5·1) = 0.85,
// −1 − 0.1·(3/3 + 0.5·(−1)) = −1.05, without decay 1 − 0.1 = 0.9; m = 0.1·g; v = 0.05·g².
TEST_F(AdamWStep, MovesByTheLearningRateOnTheFirstStepAndDecaysWhatDecays) {
  const DataType type = widest_type();
  const Buffer master = put(type, {1.0, -1.0, 1.0});
  const Buffer m = put(type, {0.0, 0.0, 0.0});
  const Buffer v = put(type, {0.0, 0.0, 0.0});
  const Buffer gradient = put(type, {2.0, 3.0, 2.0});
  const auto slice = [&](std::int64_t first, std::int64_t size, bool decays) {
    const auto part = [=](const Buffer& all) { return all.slice(first, size); };
    return AdamWSlice{part(master), part(m), part(v), part(gradient), part(master), decays};
  };
  const std::array slices = {slice(0, 2, true), slice(2, 1, false)};
  backend().adamw({.learning_rate = 0.1, .epsilon = 0.0, .weight_decay = 0.5}, slices);
  const double tolerance = 8.0 * rounding_of(type);
  expect_close(get(master), {0.85, -1.05, 0.9}, tolerance, 1.0, "weights");
  expect_close(get(m), {0.2, 0.3, 0.2}, tolerance, 1.0, "first moment");
  expect_close(get(v), {0.2, 0.45, 0.2}, tolerance, 1.0, "second moment");
}

TEST_F(AdamWStep, FollowsTheAlgorithmOverSeveralStepsInEveryType) {
  const std::vector<StepPart> parts = many_parts();
  for (const DataType type : computed_types()) {
    const DataType accumulator = accumulator_of(type);
    const States before = random_states(parts, accumulator);
    States expected = before;
    Stepped stepped(backend(), before, accumulator, type);
    for (unsigned step = 1; step <= 5; ++step) {
      expected[3] =
          random_values(static_cast<std::int64_t>(before[3].size()), 10 + step, accumulator);
      stepped.take_gradient(expected[3]);
      stepped.step(settings_of(step), parts);
      step_by_definition(settings_of(step), parts, expected);
    }
    const std::vector<Values> found = stepped.values();
    // What lies between the slices stays as it was.
    Values weights(before[0].size(), 7.0);
    std::vector<bool> is_between(before[0].size(), true);
    for (const auto& [first, size, decays] : parts) {
      for (std::int64_t i = first; i < first + size; ++i) {
        weights[i] = rounded(found[0][i], type);
        is_between[i] = false;
      }
    }
    for (std::size_t state = 0; state < 3; ++state) {
      expect_near(found[state], expected[state], accumulator,
                  {.units = 64.0, .scale = state == 0 ? 1.0 : 0.01},
                  std::string(name_of(type)) + ", " + kNamesOfStates[state]);
      for (std::size_t i = 0; i < is_between.size(); ++i) {
        ASSERT_TRUE(!is_between[i] || found[state][i] == before[state][i]) << i;
      }
    }
    EXPECT_EQ(found[3], expected[3]) << name_of(type);
    EXPECT_EQ(found[4], weights) << name_of(type);
  }
}

TEST_F(AdamWStep, GivesTheBitsOfAHostInF32) {
  const std::vector<StepPart> parts = many_parts();
  const States states = random_states(parts, DataType::kFloat32);
  CpuBackend host;
  for (const DataType type : {DataType::kFloat32, DataType::kBFloat16, DataType::kFloat16}) {
    Stepped expected(host, states, DataType::kFloat32, type);
    Stepped found(backend(), states, DataType::kFloat32, type);
    expected.step(settings_of(3), parts);
    found.step(settings_of(3), parts);
    for (std::size_t i = 0; i < kNamesOfStates.size(); ++i) {
      EXPECT_TRUE(found.values()[i] == expected.values()[i])
          << name_of(type) << ", " << kNamesOfStates[i];
    }
  }
}

/// Returns the first moment after a step from nothing by a gradient of 1, with β1 = 0.5: half of g.
class ClippedStep : public OnBackend {
 protected:
  double half_of_g(AdamW settings, double squares) {
    const DataType type = widest_type();
    const auto zero = [&] { return put(type, {0.0}); };
    const AdamWSlice slice{zero(), zero(), zero(), put(type, {1.0}), zero()};
    settings.beta1 = 0.5;
    settings.squares = put(kDouble, {squares});
    backend().adamw(settings, {&slice, 1});
    return get(slice.moment1)[0];
  }
  void expect_g(const AdamW& settings, double squares, double expected) {
    const double tolerance = 4.0 * rounding_of(widest_type());
    EXPECT_NEAR(2.0 * half_of_g(settings, squares) / expected, 1.0, tolerance)
        << settings.largest_norm << ", " << squares;
  }
};

// clip_grad_norm_ of PyTorch: min(1, limit/(norm + 10^-6)).
TEST_F(ClippedStep, ScalesNormsAboveTheLimitDownToIt) {
  expect_g({.largest_norm = 1.0}, 0.25, 1.0);
  expect_g({.largest_norm = 1.0}, 16.0, 1.0 / 4.000001);
  expect_g({.largest_norm = 0.0}, 1e18, 1.0);
  expect_g({.largest_norm = 1.0}, 0.0, 1.0);
  expect_g({.largest_norm = 1.0}, 1.0, 1.0 / 1.000001);  // the norm is the limit
  expect_g({.largest_norm = 1.0}, 0.999998 * 0.999998, 1.0);
}

// Gradients that carry a scale of 8 and have the norm 32, so 4 without it.
TEST_F(ClippedStep, TakesTheLossScaleOutFirst) {
  expect_g({.gradient_scale = 0.125, .largest_norm = 1.0}, 1024.0, 0.125 / 4.000001);
  expect_g({.gradient_scale = 0.125, .largest_norm = 5.0}, 1024.0, 0.125);
}

TEST_F(ClippedStep, ChangesNothingWhereTheSumOfSquaresIsNotFinite) {
  const DataType type = widest_type();
  for (const double squares :
       {std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity(),
        std::numeric_limits<double>::quiet_NaN()}) {
    const AdamWSlice slice{put(type, {1.0}), put(type, {2.0}), put(type, {3.0}), put(type, {4.0}),
                           put(type, {5.0})};
    backend().adamw({.learning_rate = 0.1, .largest_norm = 1.0, .squares = put(kDouble, {squares})},
                    {&slice, 1});
    EXPECT_EQ(get(slice.master)[0], 1.0) << squares;
    EXPECT_EQ(get(slice.moment1)[0], 2.0) << squares;
    EXPECT_EQ(get(slice.moment2)[0], 3.0) << squares;
    EXPECT_EQ(get(slice.weights)[0], 5.0) << squares;
  }
}

TEST_F(AdamWStep, OfNoSlicesDoesNothing) {
  backend().adamw(settings_of(1), {});
  backend().adamw(settings_of(1), std::array{AdamWSlice{}});
  backend().synchronize();
}

TEST_F(AddSquares, SumsInF64AndAddsToTheTotal) {
  const DataType type = DataType::kFloat32;
  // Sums of equal powers of two are exact in any order; in f32 the longest would drift.
  for (const std::int64_t size : {1, 31, 257, 1025, 5001, 300'000}) {
    EXPECT_EQ(sum_of_squares(put(type, Values(size, 0.03125)), 1.0),
              1.0 + static_cast<double>(size) * 0.03125 * 0.03125);
  }
  EXPECT_EQ(sum_of_squares(put(type, {0x1p100})), 0x1p200);  // whose square is no f32
  EXPECT_EQ(sum_of_squares(Buffer(), 5.0), 5.0);
}

TEST_F(AddSquares, SumsAnySliceToTheSameBits) {
  const DataType type = DataType::kFloat32;
  const Values values = random_values(12'345, 5, type);
  double expected = 0.0;
  for (const double x : values) {
    expected += x * x;
  }
  const double found = sum_of_squares(put(type, values));
  EXPECT_NEAR(found, expected, 1e-12 * expected);
  Values among(3, std::nan(""));
  among.insert(among.end(), values.begin(), values.end());
  among.push_back(std::nan(""));
  EXPECT_EQ(sum_of_squares(put(type, among).slice(3, 12'345)), found);
}

TEST_F(AddSquares, ShowsWhatIsNotFinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  for (const DataType type : {widest_type(), DataType::kFloat32}) {
    for (const double fault : {infinity, -infinity, std::nan("")}) {
      for (const std::size_t place : {0, 1777, 2999}) {
        Values x(3000, 1.0);
        x[place] = fault;
        EXPECT_FALSE(std::isfinite(sum_of_squares(put(type, x)))) << name_of(type) << " " << place;
      }
    }
  }
}

/// Returns a normal variate by Box & Muller from the words of an independent generator.
double normal_reference(std::uint64_t key, std::uint64_t number) {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const PhiloxWords words =
      philox_reference({low(number), low(number >> 32U), 0, 0}, {low(key), low(key >> 32U)});
  const auto uniform_of = [](std::uint32_t high, std::uint32_t low_word) {
    const auto bits = static_cast<double>(((std::uint64_t{high} << 32U) | low_word) >> 12U);
    return (bits + 0.5) / 4503599627370496.0;
  };
  return std::sqrt(-2.0 * std::log(uniform_of(words[0], words[1]))) *
         std::cos(2.0 * M_PI * uniform_of(words[2], words[3]));
}

TEST_F(FillNormal, DrawsTheNormalVariateOfTheElementsNumber) {
  constexpr std::uint64_t key = 0x1234567890ABCDEF;
  constexpr double deviation = 0.02;
  const MatrixBlock block{.first_row = 1'000'000'007,
                          .first_column = 5,
                          .rows = 37,
                          .columns = 21,
                          .total_columns = 50};
  for (const DataType type : kWorkingTypes) {
    const Buffer x = poison(type, block.rows * block.columns, /*offset=*/1);
    backend().fill_normal(x, block, key, deviation);
    const Values found = get(x);
    for (std::int64_t i = 0; i < x.size; ++i) {
      const std::int64_t number = (block.first_row + i / block.columns) * block.total_columns +
                                  block.first_column + i % block.columns;
      const double expected =
          rounded(deviation * normal_reference(key, static_cast<std::uint64_t>(number)), type);
      // One more unit in the last place where a log or cos rounded to the other side.
      const double allowed = type == kDouble
                                 ? std::min(1e-12 * std::abs(expected), 5e-14 * deviation)
                                 : std::max(2.0 * rounding_of(type) * std::abs(expected), 0x1p-24);
      ASSERT_NEAR(found[i], expected, allowed) << name_of(type) << ", element " << i;
    }
  }
}

TEST_F(FillNormal, GivesEachElementOfTheWholeTheSameValueInEveryBlock) {
  const MatrixBlock all{.rows = 6, .columns = 10, .total_columns = 10};
  const MatrixBlock block{
      .first_row = 2, .first_column = 5, .rows = 3, .columns = 4, .total_columns = 10};
  for (const DataType type : kWorkingTypes) {
    const Buffer whole = poison(type, 6 * 10);
    const Buffer part = poison(type, 3 * 4);
    backend().fill_normal(whole, all, 99, 0.02);
    backend().fill_normal(part, block, 99, 0.02);
    const Values values = get(whole);
    Values expected;
    for (std::int64_t row = 2; row < 5; ++row) {
      expected.insert(expected.end(), values.begin() + row * 10 + 5, values.begin() + row * 10 + 9);
    }
    EXPECT_EQ(get(part), expected) << name_of(type);
  }
}

}  // namespace
}  // namespace ptdp
