// Cross-entropy over the vocabulary of one rank or of several.
#include <gtest/gtest.h>

#include "tests/kernels/finite_differences.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

constexpr double kScale = 0.125;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct LossShape {
  std::int64_t rows = 0;
  std::int64_t padded = 0;  ///< Columns of all ranks together, padding included.
  std::int64_t valid = 0;
};
constexpr std::array<LossShape, 14> kLossShapes = {{{0, 8, 8},
                                                    {1, 1, 1},
                                                    {1, 4, 1},
                                                    {3, 5, 5},
                                                    {3, 16, 13},
                                                    {4, 32, 29},
                                                    {5, 132, 130},
                                                    {5, 128, 100},
                                                    {2, 128, 3},
                                                    {4, 1028, 1025},
                                                    {7, 1030, 1025},
                                                    {3, 4096, 4096},
                                                    {2, 9000, 8999},
                                                    {2, 50304, 50257}}};

/// What all ranks find together.
struct LossValues {
  Values maxima;
  Values sums;
  double loss = 0.0;  ///< Loss of all rows.
  Values gradient;    ///< Gradient of the logits of all ranks.

  bool operator==(const LossValues&) const = default;
};

Values targets_of(const LossShape& shape) {
  Values targets;
  for (std::int64_t row = 0; row < shape.rows; ++row) {
    targets.push_back(static_cast<double>((7919 * row + shape.valid - 1) % shape.valid));
  }
  return targets;
}

/// Returns logits whose padding columns hold values that would show in every sum.
Values logits_of(const LossShape& shape, DataType type, unsigned seed) {
  Values logits = random_values(shape.rows * shape.padded, seed, type, 2.0);
  for (std::int64_t i = 0; i < shape.rows * shape.padded; ++i) {
    if (i % shape.padded >= shape.valid) {
      logits[i] = i % 2 == 0 ? std::nan("") : 1e4;
    }
  }
  return logits;
}

/// Returns the gradients by logits of which `logits` are the capped values. Those in padding are 0.
Values uncapped(const LossShape& shape, Values gradient, const Values& logits, double cap) {
  for (std::int64_t i = 0; i < shape.rows * shape.padded; ++i) {
    if (i % shape.padded < shape.valid) {
      gradient[i] *= 1.0 - logits[i] / cap * (logits[i] / cap);
    }
  }
  return gradient;
}

LossValues naive_loss(const LossShape& shape, const Values& logits) {
  const Values targets = targets_of(shape);
  LossValues result{Values(shape.rows, -kInfinity), Values(2 * shape.rows, 0.0), 0.0,
                    Values(logits.size(), 0.0)};
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const double* const x = logits.data() + r * shape.padded;
    const auto target = static_cast<std::int64_t>(targets[r]);
    double& sum = result.sums[r];
    result.maxima[r] = *std::max_element(x, x + shape.valid);
    for (std::int64_t c = 0; c < shape.valid; ++c) {
      sum += std::exp(x[c] - result.maxima[r]);
    }
    result.sums[shape.rows + r] = x[target] - result.maxima[r];
    result.loss += std::log(sum) - result.sums[shape.rows + r];
    for (std::int64_t c = 0; c < shape.valid; ++c) {
      const double one = c == target ? 1.0 : 0.0;
      result.gradient[r * shape.padded + c] =
          (std::exp(x[c] - result.maxima[r]) / sum - one) * kScale;
    }
  }
  return result;
}

class CrossEntropy : public OnBackend {
 protected:
  /// Returns what `ranks` ranks find that hold an equal part of the columns each. Their buffers
  /// begin `offset` elements after an aligned address.
  LossValues found(DataType type, const LossShape& shape, const Values& logits,
                   std::int64_t ranks = 1, std::int64_t offset = 0, double soft_cap = 0.0) {
    const DataType accumulator = accumulator_of(type);
    const std::int64_t width = shape.padded / ranks;
    const Buffer ids = put(DataType::kInt32, targets_of(shape), offset);
    const Buffer maxima = put(accumulator, Values(shape.rows, -kInfinity), offset);
    const Buffer sums = put(accumulator, Values(2 * shape.rows, 0.0), offset);
    std::vector<Buffer> parts;
    std::vector<VocabShard> shards;
    for (std::int64_t first = 0; first < shape.padded; first += width) {
      Values part;
      for (std::int64_t row = 0; row < shape.rows; ++row) {
        const auto begin = logits.begin() + row * shape.padded + first;
        part.insert(part.end(), begin, begin + width);
      }
      parts.push_back(put(type, part, offset));
      shards.push_back({.first = first, .width = width, .num_valid = shape.valid});
      const Buffer own = poison(accumulator, shape.rows, offset);
      backend().row_maxima(parts.back(), shards.back(), own, shape.rows);
      backend().maximum(own, maxima);
    }
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      const Buffer own = poison(accumulator, 2 * shape.rows, offset);
      backend().softmax_sums(parts[rank], shards[rank], ids, maxima, own, shape.rows);
      backend().add(own, sums);
    }
    const Buffer total = put(kDouble, {2.0}, offset);
    backend().add_losses(sums, total, shape.rows);
    LossValues values{get(maxima), get(sums), get(total)[0] - 2.0, Values(logits.size())};
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      backend().cross_entropy_backward({.logits = parts[rank],
                                        .shard = shards[rank],
                                        .targets = ids,
                                        .maxima = maxima,
                                        .sums = sums,
                                        .scale = kScale,
                                        .soft_cap = soft_cap,
                                        .rows = shape.rows});
      const Values own = get(parts[rank]);
      for (std::int64_t i = 0; i < shape.rows * width; ++i) {
        values.gradient[i / width * shape.padded + shards[rank].first + i % width] = own[i];
      }
    }
    return values;
  }
};
using RowMaxima = OnBackend;

TEST_F(CrossEntropy, EqualsTheDefinitionOnOneRankAndOnSeveral) {
  for (const DataType type : computed_types()) {
    const DataType accumulator = accumulator_of(type);
    for (const LossShape& shape : kLossShapes) {
      const Values logits = logits_of(shape, type, 1);
      const LossValues expected = naive_loss(shape, logits);
      LossValues whole;
      for (const std::int64_t ranks : {1, 2, 4}) {
        if (shape.padded % ranks != 0) {
          continue;
        }
        SCOPED_TRACE(testing::Message() << name_of(type) << " " << shape.rows << "x" << shape.padded
                                        << ", ranks " << ranks);
        const LossValues values = found(type, shape, logits, ranks);
        EXPECT_EQ(values.maxima, expected.maxima);
        expect_near(values.sums, expected.sums, accumulator, {.units = 64.0}, "sums");
        expect_near({values.loss}, {expected.loss}, accumulator, {.units = 64.0}, "loss");
        expect_near(values.gradient, expected.gradient, type, {.units = 64.0, .scale = 1e-4},
                    "gradient");
        if (ranks == 1) {
          whole = values;
        }
        expect_near(values.sums, whole.sums, accumulator, {.units = 16.0}, "sums of another cut");
        expect_near(values.gradient, whole.gradient, type,
                    {.units = 32.0, .scale = 1e-4, .roundings = 2.0}, "gradient of another cut");
      }
    }
  }
}

TEST_F(CrossEntropy, GradientEqualsFiniteDifferencesOnShards) {
  const DataType type = widest_type();
  const LossShape shape{.rows = 3, .padded = 12, .valid = 10};
  const Values logits = random_values(shape.rows * shape.padded, 3, type);
  for (const std::int64_t ranks : {1, 2, 4}) {
    expect_gradient(
        found(type, shape, logits, ranks).gradient, logits,
        [&](const Values& moved) { return kScale * naive_loss(shape, moved).loss; },
        std::to_string(ranks));
  }
}

TEST_F(CrossEntropy, GradientOfCappedLogitsIsThatBeforeTheCap) {
  constexpr double cap = 5.0;
  for (const DataType type : computed_types()) {
    for (const LossShape& shape : {LossShape{3, 16, 13}, {5, 132, 130}, {3, 4096, 4096}}) {
      Values logits = logits_of(shape, type, 1);
      for (double& x : logits) {
        x = std::abs(x) > 1e3 ? x : rounded(cap * std::tanh(x / cap), type);
      }
      const Values expected = uncapped(shape, naive_loss(shape, logits).gradient, logits, cap);
      for (const std::int64_t ranks : {1, 2}) {
        if (shape.padded % ranks == 0) {
          SCOPED_TRACE(testing::Message() << name_of(type) << ", ranks " << ranks);
          expect_near(found(type, shape, logits, ranks, /*offset=*/0, cap).gradient, expected, type,
                      {.units = 64.0, .scale = 1e-3}, "gradient");
        }
      }
    }
  }
}

// The loss of soft-capped logits: the cap's own kernel forward, and its derivative backward.
TEST_F(CrossEntropy, OfLogitsThatItCappedHasTheGradientOfFiniteDifferences) {
  constexpr double cap = 1.5;
  const DataType type = widest_type();
  const LossShape shape{.rows = 3, .padded = 12, .valid = 10};
  const Values logits = random_values(shape.rows * shape.padded, 3, type);
  const auto capped = [](Values values) {
    for (double& x : values) {
      x = cap * std::tanh(x / cap);
    }
    return values;
  };
  const Buffer x = put(type, logits);
  backend().soft_cap(x, cap);
  expect_gradient(
      found(type, shape, get(x), /*ranks=*/1, /*offset=*/0, cap).gradient, logits,
      [&](const Values& moved) { return kScale * naive_loss(shape, capped(moved)).loss; },
      "logits");
}

TEST_F(CrossEntropy, GivesTheSameBitsAgainAndAtAnyAlignment) {
  for (const DataType type : computed_types()) {
    for (const auto& [shape, ranks] :
         {std::pair{LossShape{3, 1024, 1021}, 2}, std::pair{LossShape{2, 9000, 8999}, 1},
          std::pair{LossShape{3, 77, 70}, 1}}) {
      const Values logits = logits_of(shape, type, 2);
      const LossValues first = found(type, shape, logits, ranks);
      for (const std::int64_t offset : {0, 1, 2}) {
        EXPECT_EQ(found(type, shape, logits, ranks, offset), first)
            << name_of(type) << ", width " << shape.padded << ", offset " << offset;
      }
    }
  }
}

TEST_F(CrossEntropy, DoesNotOverflowForLargeLogits) {
  const LossShape shape{.rows = 1, .padded = 4, .valid = 4};
  for (const DataType type : computed_types()) {
    // The target is the last; bf16 holds these exactly.
    const LossValues values = found(type, shape, {1000.0, -1000.0, 0.0, 992.0}, /*ranks=*/2);
    // A GPU's powers of 16-bit logits carry a rounding of the maximum.
    const double allowed = bytes_of(type) == 2 ? 1e-4 : 1e-5;
    EXPECT_NEAR(values.loss, 8.0 + std::log1p(std::exp(-8.0)), allowed) << name_of(type);
    expect_close(values.gradient, {kScale, 0.0, 0.0, -kScale}, 1e-4, 1.0,
                 std::string(name_of(type)));
  }
}

TEST_F(CrossEntropy, ShowsWhatIsNotANumber) {
  for (const DataType type : computed_types()) {
    for (const std::int64_t width : {40, 1000}) {
      const LossShape shape{.rows = 3, .padded = width, .valid = width};
      for (const std::int64_t column : {std::int64_t{0}, width / 2, width - 1}) {
        Values logits = logits_of(shape, type, 3);
        logits[width + column] = std::nan("");
        const LossValues values = found(type, shape, logits);
        EXPECT_TRUE(std::isnan(values.maxima[1])) << name_of(type) << ", " << column;
        EXPECT_FALSE(std::isnan(values.maxima[0]) || std::isnan(values.maxima[2]));
        EXPECT_TRUE(std::isnan(values.loss));
      }
    }
  }
}

TEST_F(CrossEntropy, OfNoRowsAddsNothing) {
  EXPECT_EQ(found(DataType::kBFloat16, {.rows = 0, .padded = 8, .valid = 8}, {}).loss, 0.0);
}

TEST_F(CrossEntropy, SumsTheLossesOfManyRowsInF64) {
  constexpr std::int64_t num_rows = 70'001;
  Values sums;
  const Values of_targets = random_values(num_rows, 4, DataType::kFloat32);
  double expected = 1e6;
  for (const double of_target : of_targets) {
    sums.push_back(rounded(1.0 + std::abs(of_target), DataType::kFloat32));
    expected += std::log(sums.back()) - of_target;
  }
  sums.insert(sums.end(), of_targets.begin(), of_targets.end());
  const Buffer total = put(kDouble, {1e6});
  backend().add_losses(put(DataType::kFloat32, sums), total, num_rows);
  EXPECT_NEAR(get(total)[0], expected, 1e-12 * expected);
}

TEST_F(RowMaxima, AreMinusInfinityWhereARankHasNoValidColumn) {
  const Buffer maxima = poison(DataType::kFloat32, 2);
  backend().row_maxima(put(DataType::kFloat32, Values(8, 1.0)),
                       {.first = 8, .width = 4, .num_valid = 8}, maxima, 2);
  EXPECT_EQ(get(maxima), Values(2, -kInfinity));
}

}  // namespace
}  // namespace ptdp
