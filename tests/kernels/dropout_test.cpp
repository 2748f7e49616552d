// Dropout of the host's backend: values by an independent generator, rate, layouts, gradients.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/host_values.h"
#include "tests/kernels/philox_reference.h"

namespace ptdp {
namespace {

constexpr Dropout kDropout{.probability = 0.3, .key = 0x123456789ABCDEF0U};

/// What bias_dropout_add gives; absent terms are empty.
Values naive_dropout(const Values& x, const Values& bias, const Values& residual,
                     const Dropout& dropout, const TokenRange& range, std::int64_t rows) {
  Values y(x.size());
  const std::int64_t width = rows == 0 ? 0 : static_cast<std::int64_t>(x.size()) / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    const std::int64_t position = range.first_position + r / range.batch;
    const std::int64_t sample = range.first_sample + r % range.batch;
    for (std::int64_t c = 0; c < width; ++c) {
      const auto element =
          static_cast<std::uint64_t>((sample * range.seq_length + position) * width + c);
      const double mask = mask_reference(dropout.key, dropout.probability, element);
      y[r * width + c] = (residual.empty() ? 0.0 : residual[r * width + c]) +
                         mask * (x[r * width + c] + (bias.empty() ? 0.0 : bias[c]));
    }
  }
  return y;
}

struct DropoutCase {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  TokenRange range = {};
};

std::vector<DropoutCase> cases() {
  return {
      {0, 5, {}},
      {1, 1, {0, 0, 1, 4}},
      {6, 7, {3, 2, 2, 9}},
      {8, 130, {1, 0, 4, 2}},
      {3, 1025, {0, 1, 1, 8}},
      {4, 64, {std::int64_t{1} << 33, 5, 2, 4096}},  // numbers of elements beyond 2^32
  };
}

TEST(BiasDropoutAdd, EqualsTheDefinitionWithAndWithoutBiasAndResidual) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    for (const auto& [rows, width, range] : cases()) {
      const Values x = random_values(rows * width, 1, type);
      for (const int present : {0, 1, 2, 3}) {
        const Values bias = (present & 1) != 0 ? random_values(width, 2, type) : Values{};
        const Values residual =
            (present & 2) != 0 ? random_values(rows * width, 3, type) : Values{};
        for (const double probability : {0.0, 0.3}) {
          const Dropout dropout{.probability = probability, .key = kDropout.key};
          const Tensor y = poisoned(backend, type, rows * width);
          backend.bias_dropout_add(tensor_of(backend, type, x), tensor_of(backend, type, bias),
                                   tensor_of(backend, type, residual), dropout, range, y, rows);
          expect_close(read_values(y), naive_dropout(x, bias, residual, dropout, range, rows),
                       1.01 * rounding_of(type) + 4.0 * rounding_of(accumulator_of(type)), 1.0,
                       std::string(name_of(type)));
        }
      }
    }
  }
}

TEST(BiasDropoutAdd, MayWriteOverItsInputOrTheResidual) {
  CpuBackend backend;
  const TokenRange range{.batch = 2, .seq_length = 4};
  const auto type = DataType::kFloat32;
  const Values values = random_values(8 * 33, 1, type);
  const Tensor bias = tensor_of(backend, type, random_values(33, 2, type));
  const Tensor x = tensor_of(backend, type, values);
  const Tensor residual = tensor_of(backend, type, random_values(8 * 33, 3, type));
  const Tensor y = poisoned(backend, type, 8 * 33);
  backend.bias_dropout_add(x, bias, residual, kDropout, range, y, 8);
  const Values apart = read_values(y);
  backend.bias_dropout_add(x, bias, residual, kDropout, range, x, 8);
  EXPECT_EQ(read_values(x), apart);
  backend.bias_dropout_add(tensor_of(backend, type, values), bias, residual, kDropout, range,
                           residual, 8);
  EXPECT_EQ(read_values(residual), apart);
}

TEST(DropoutBackward, EqualsFiniteDifferences) {
  CpuBackend backend;
  const TokenRange range{.first_sample = 2, .batch = 2, .seq_length = 3};
  const auto type = DataType::kFloat64;
  const Values x = random_values(6 * 11, 1);
  const Values dy = random_values(6 * 11, 2);
  const Values expected = numeric_gradient(x, [&](const Values& moved) {
    const Tensor y = poisoned(backend, type, 6 * 11);
    backend.bias_dropout_add(tensor_of(backend, type, moved), {}, {}, kDropout, range, y, 6);
    return dot(read_values(y), dy);
  });
  const Tensor gradient = tensor_of(backend, type, dy);
  const Tensor dx = poisoned(backend, type, 6 * 11);
  backend.dropout_backward(gradient, kDropout, range, dx, 6);
  expect_close(read_values(dx), expected, 1e-6, 1.0, "dx");
  backend.dropout_backward(gradient, kDropout, range, gradient, 6);
  EXPECT_EQ(read_values(gradient), read_values(dx));
}

TEST(DropoutBackward, AppliesTheMaskOfTheForwardInEveryType) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    for (const auto& [rows, width, range] : cases()) {
      const Values dy = random_values(rows * width, 1, type);
      const Tensor dx = poisoned(backend, type, rows * width);
      backend.dropout_backward(tensor_of(backend, type, dy), kDropout, range, dx, rows);
      expect_close(read_values(dx), naive_dropout(dy, {}, {}, kDropout, range, rows),
                   1.01 * rounding_of(type) + 4.0 * rounding_of(accumulator_of(type)), 1.0,
                   std::string(name_of(type)));
    }
  }
}

TEST(Dropout, DropsTheShareThatItsProbabilitySays) {
  CpuBackend backend;
  constexpr std::int64_t size = 1'000'000;
  const Tensor x(backend, DataType::kFloat32, size);
  for (const double probability : {0.01, 0.1, 0.5, 0.9}) {
    backend.fill(x, 1.0);
    backend.bias_dropout_add(x, {}, {}, {.probability = probability, .key = 7},
                             {.seq_length = 1000}, x, 1000);
    std::int64_t dropped = 0;
    for (const double value : read_values(x)) {
      dropped += value == 0.0 ? 1 : 0;
    }
    const double deviation = std::sqrt(size * probability * (1.0 - probability));
    EXPECT_NEAR(static_cast<double>(dropped), size * probability, 5.0 * deviation) << probability;
  }
}

// A part of the sequence, or of the batch, held by another rank: the same elements.
TEST(Dropout, GivesTheSameBitsHoweverRowsAreCut) {
  CpuBackend backend;
  constexpr std::int64_t sequence = 6;
  constexpr std::int64_t batch = 4;
  constexpr std::int64_t width = 37;
  for (const DataType type : kWorkingTypes) {
    const Values x = random_values(sequence * batch * width, 1, type);
    const TokenRange all{.first_sample = 8, .batch = batch, .seq_length = sequence};
    const Tensor whole = tensor_of(backend, type, x);
    backend.bias_dropout_add(whole, {}, {}, kDropout, all, whole, sequence * batch);
    const Values expected = read_values(whole);

    const std::int64_t third = sequence / 3 * batch;
    for (std::int64_t part = 0; part < 3; ++part) {
      const auto begin = x.begin() + part * third * width;
      const Tensor rows = tensor_of(backend, type, Values(begin, begin + third * width));
      TokenRange range = all;
      range.first_position = part * sequence / 3;
      backend.bias_dropout_add(rows, {}, {}, kDropout, range, rows, third);
      const auto of_whole = expected.begin() + part * third * width;
      EXPECT_EQ(read_values(rows), Values(of_whole, of_whole + third * width));
    }

    for (std::int64_t sample = 0; sample < batch; ++sample) {
      Values of_sample;
      Values of_whole;
      for (std::int64_t row = sample; row < sequence * batch; row += batch) {
        of_sample.insert(of_sample.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
        of_whole.insert(of_whole.end(), expected.begin() + row * width,
                        expected.begin() + (row + 1) * width);
      }
      const Tensor rows = tensor_of(backend, type, of_sample);
      backend.bias_dropout_add(rows, {}, {}, kDropout,
                               {.first_sample = 8 + sample, .seq_length = sequence}, rows,
                               sequence);
      EXPECT_EQ(read_values(rows), of_whole);
    }
  }
}

}  // namespace
}  // namespace ptdp
