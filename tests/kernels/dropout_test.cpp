// Dropout: masks by an independent generator, rate, layouts.
#include <gtest/gtest.h>

#include "tests/kernels/philox_reference.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

using BiasDropoutAdd = OnBackend;
using DropoutMask = OnBackend;

constexpr Dropout kDropout{.probability = 0.3, .key = 0x123456789ABCDEF0U};

struct DropoutCase {
  std::int64_t rows = 0;
  std::int64_t width = 0;
  TokenRange range = {};
};

TokenRange token_range(std::int64_t first_sample, std::int64_t batch, std::int64_t seq_length,
                       PositionRun first, PositionRun second = {}) {
  return {.first_sample = first_sample,
          .batch = batch,
          .seq_length = seq_length,
          .runs = {first, second}};
}

/// Returns position number `number` of both runs, which are written out here.
std::int64_t position_number(const TokenRange& range, std::int64_t number) {
  std::vector<std::int64_t> positions;
  for (const PositionRun& run : range.runs) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      positions.push_back(run.first + i);
    }
  }
  return positions.at(static_cast<std::size_t>(number));
}

std::vector<DropoutCase> cases() {
  return {
      {0, 5, {}},
      {1, 1, token_range(0, 1, 4, {0, 1})},
      {6, 7, token_range(3, 2, 9, {2, 3})},
      // Whole vectors of f32 only; half a position at the end.
      {7, 36, token_range(3, 2, 9, {2, 4})},
      {8, 130, token_range(1, 4, 2, {0, 2})},
      {8, 136, token_range(1, 4, 2, {0, 2})},
      {3, 1025, token_range(0, 1, 8, {1, 3})},
      // Numbers of elements beyond 2^32.
      {4, 64, token_range(std::int64_t{1} << 33, 2, 4096, {5, 2})},
      // Two runs of positions, the second in front of the first, too.
      {10, 24, token_range(2, 2, 16, {1, 2}, {13, 3})},
      {9, 5, token_range(0, 3, 16, {12, 1}, {4, 2})},
  };
}

/// Returns what each element is multiplied by.
Values masks_of(const DropoutCase& shape, const Dropout& dropout) {
  const auto& [rows, width, range] = shape;
  Values masks;
  for (std::int64_t i = 0; i < rows * width; ++i) {
    const std::int64_t position = position_number(range, i / width / range.batch);
    const std::int64_t sample = range.first_sample + i / width % range.batch;
    const std::int64_t number = (sample * range.seq_length + position) * width + i % width;
    masks.push_back(mask_reference(dropout.key, dropout.probability,  //
                                   static_cast<std::uint64_t>(number)));
  }
  return masks;
}

TEST_F(BiasDropoutAdd, EqualsTheDefinitionWithAndWithoutBiasAndResidual) {
  for (const DataType type : computed_types()) {
    for (const DropoutCase& shape : cases()) {
      const auto& [rows, width, range] = shape;
      const Values x = random_values(rows * width, 1, type);
      for (const int present : {0, 1, 2, 3}) {
        const Values bias = (present & 1) != 0 ? random_values(width, 2, type) : Values{};
        const Values residual =
            (present & 2) != 0 ? random_values(rows * width, 3, type) : Values{};
        for (const auto& [probability, scale] :
             {std::pair(0.0, 1.0), {0.3, 1.0}, {0.0, 0.22}, {0.3, -0.6}}) {
          SCOPED_TRACE(testing::Message() << name_of(type) << " " << rows << "x" << width);
          const Dropout dropout{.probability = probability, .key = kDropout.key};
          const Buffer y = poison(type, rows * width);
          backend().bias_dropout_add({.x = put(type, x),
                                      .bias = put(type, bias),
                                      .residual = put(type, residual),
                                      .dropout = dropout,
                                      .scale = scale,
                                      .range = range,
                                      .y = y,
                                      .rows = rows});
          Values expected = masks_of(shape, dropout);
          for (std::int64_t i = 0; i < rows * width; ++i) {
            expected[i] = scale * expected[i] * (x[i] + (bias.empty() ? 0.0 : bias[i % width])) +
                          (residual.empty() ? 0.0 : residual[i]);
          }
          expect_near(get(y), expected, type, {.units = 5.0}, "y");
        }
      }
    }
  }
}

TEST_F(BiasDropoutAdd, MayWriteOverItsInputOrTheResidualAsItsBackwardMay) {
  const TokenRange range = token_range(0, 2, 4, {0, 4});
  for (const DataType type : computed_types()) {
    for (const std::int64_t width : {33, 64}) {
      const Values values = random_values(8 * width, 1, type);
      const Buffer bias = put(type, random_values(width, 2, type));
      const Buffer x = put(type, values);
      const Buffer residual = put(type, random_values(8 * width, 3, type));
      const Buffer y = poison(type, 8 * width);
      backend().bias_dropout_add({.x = x,
                                  .bias = bias,
                                  .residual = residual,
                                  .dropout = kDropout,
                                  .range = range,
                                  .y = y,
                                  .rows = 8});
      const Values apart = get(y);
      backend().bias_dropout_add({.x = x,
                                  .bias = bias,
                                  .residual = residual,
                                  .dropout = kDropout,
                                  .range = range,
                                  .y = x,
                                  .rows = 8});
      EXPECT_EQ(get(x), apart);
      backend().bias_dropout_add({.x = put(type, values),
                                  .bias = bias,
                                  .residual = residual,
                                  .dropout = kDropout,
                                  .range = range,
                                  .y = residual,
                                  .rows = 8});
      EXPECT_EQ(get(residual), apart);
      backend().dropout_backward(y, kDropout, 1.0, range, x, 8);
      backend().dropout_backward(y, kDropout, 1.0, range, y, 8);
      EXPECT_EQ(get(y), get(x));
    }
  }
}

TEST_F(DropoutMask, IsThatOfTheElementsNumberForwardAndBackward) {
  for (const DataType type : computed_types()) {
    for (const DropoutCase& shape : cases()) {
      const auto& [rows, width, range] = shape;
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << rows << "x" << width);
      const Buffer ones = put(type, Values(rows * width, 1.0));
      const Buffer y = poison(type, rows * width);
      const Buffer dx = poison(type, rows * width);
      backend().bias_dropout_add(
          {.x = ones, .dropout = kDropout, .range = range, .y = y, .rows = rows});
      backend().dropout_backward(ones, kDropout, 1.0, range, dx, rows);
      const Values masks = masks_of(shape, kDropout);
      const Values narrowed = rounded(rounded(masks, accumulator_of(type)), type);
      EXPECT_EQ(get(y), narrowed);
      EXPECT_EQ(get(dx), narrowed);

      const Values dy = random_values(rows * width, 1, type);
      backend().dropout_backward(put(type, dy), kDropout, 1.0, range, dx, rows);
      Values expected = masks;
      for (std::size_t i = 0; i < dy.size(); ++i) {
        expected[i] *= dy[i];
      }
      expect_near(get(dx), expected, type, {.units = 5.0}, "dx");
      backend().dropout_backward(put(type, dy), kDropout, 0.22, range, dx, rows);
      for (double& value : expected) {
        value *= 0.22;
      }
      expect_near(get(dx), expected, type, {.units = 5.0}, "dx of a scaled result");
    }
  }
}

TEST_F(DropoutMask, DropsTheShareThatItsProbabilitySays) {
  constexpr std::int64_t size = 1'000'000;
  const Buffer x = poison(DataType::kFloat32, size);
  for (const double probability : {0.01, 0.1, 0.5, 0.9}) {
    backend().fill(x, 1.0);
    backend().bias_dropout_add({.x = x,
                                .dropout = {.probability = probability, .key = 7},
                                .range = token_range(0, 1, 1000, {0, 1000}),
                                .y = x,
                                .rows = 1000});
    const Values found = get(x);
    const auto dropped = static_cast<double>(std::count(found.begin(), found.end(), 0.0));
    const double deviation = std::sqrt(size * probability * (1.0 - probability));
    EXPECT_NEAR(dropped, size * probability, 5.0 * deviation) << probability;
  }
}

// A part of the sequence, or of the batch, that another rank holds, misaligned in memory.
TEST_F(DropoutMask, GivesTheSameBitsHoweverRowsAreCutAndAligned) {
  constexpr std::int64_t sequence = 6;
  constexpr std::int64_t batch = 4;
  const TokenRange all = token_range(8, batch, sequence, {0, sequence});
  for (const DataType type : computed_types()) {
    for (const std::int64_t width : {37, 40}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << width);
      const Values x = random_values(sequence * batch * width, 1, type);
      const Buffer whole = put(type, x);
      backend().bias_dropout_add(
          {.x = whole, .dropout = kDropout, .range = all, .y = whole, .rows = sequence * batch});
      const Values expected = get(whole);

      const std::int64_t third = sequence / 3 * batch;
      const Buffer thirds = put(type, x, /*offset=*/1);
      for (std::int64_t part = 0; part < 3; ++part) {
        const TokenRange range =
            token_range(8, batch, sequence, {part * sequence / 3, sequence / 3});
        const Buffer rows = thirds.slice(part * third * width, third * width);
        backend().bias_dropout_add(
            {.x = rows, .dropout = kDropout, .range = range, .y = rows, .rows = third});
      }
      EXPECT_EQ(get(thirds), expected);

      for (std::int64_t sample = 0; sample < batch; ++sample) {
        const auto of_sample = [&](const Values& values) {
          Values part;
          for (std::int64_t row = sample; row < sequence * batch; row += batch) {
            const auto begin = values.begin() + row * width;
            part.insert(part.end(), begin, begin + width);
          }
          return part;
        };
        const Buffer rows = put(type, of_sample(x));
        const TokenRange range = token_range(8 + sample, 1, sequence, {0, sequence});
        backend().bias_dropout_add(
            {.x = rows, .dropout = kDropout, .range = range, .y = rows, .rows = sequence});
        EXPECT_EQ(get(rows), of_sample(expected));
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
