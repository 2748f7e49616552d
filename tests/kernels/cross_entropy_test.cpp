// Cross-entropy over the vocabulary of one rank or of several.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/host_values.h"

namespace ptdp {
namespace {

constexpr double kScale = 0.125;

struct Case {
  std::int64_t rows = 0;
  std::int64_t padded = 0;  ///< Columns of all ranks together, a multiple of 4.
  std::int64_t valid = 0;
};
constexpr std::array<Case, 6> kCases = {
    {{0, 8, 8}, {1, 4, 1}, {3, 16, 13}, {5, 132, 130}, {2, 128, 3}, {4, 1028, 1025}}};

Values targets_of(const Case& shape) {
  Values targets;
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    targets.push_back(static_cast<double>((7 * r + 11) % shape.valid));
  }
  return targets;
}

/// Losses summed over rows, and the gradients of the logits.
struct NaiveLoss {
  double loss = 0.0;
  Values gradient;
};
NaiveLoss naive_loss(const Case& shape, const Values& logits, const Values& targets) {
  NaiveLoss result{0.0, Values(logits.size(), 0.0)};
  for (std::int64_t r = 0; r < shape.rows; ++r) {
    const double* const x = logits.data() + r * shape.padded;
    const auto target = static_cast<std::int64_t>(targets[r]);
    double sum = 0.0;
    for (std::int64_t c = 0; c < shape.valid; ++c) {
      sum += std::exp(x[c]);
    }
    result.loss += std::log(sum) - x[target];
    for (std::int64_t c = 0; c < shape.valid; ++c) {
      const double one = c == target ? 1.0 : 0.0;
      result.gradient[r * shape.padded + c] = (std::exp(x[c]) / sum - one) * kScale;
    }
  }
  return result;
}

/// Columns [first, first + width) of every row.
Values columns(const Values& all, std::int64_t padded, std::int64_t first, std::int64_t width) {
  Values part;
  for (std::int64_t begin = 0; begin < static_cast<std::int64_t>(all.size()); begin += padded) {
    part.insert(part.end(), all.begin() + begin + first, all.begin() + begin + first + width);
  }
  return part;
}

/// What ranks that hold an equal part of the columns each find together.
struct FoundLoss {
  Values maxima;
  Values sums;
  double loss = 0.0;
  Values gradient;  ///< Of the whole.
};
FoundLoss run(Backend& backend, DataType type, const Case& shape, const Values& logits,
              const Values& targets, int ranks) {
  const DataType accumulator = accumulator_of(type);
  const std::int64_t width = shape.padded / ranks;
  const Tensor ids = tensor_of(backend, DataType::kInt32, targets);
  const Tensor maxima =
      tensor_of(backend, accumulator, Values(shape.rows, -std::numeric_limits<double>::infinity()));
  const Tensor sums = tensor_of(backend, accumulator, Values(2 * shape.rows, 0.0));
  std::vector<Tensor> parts;
  std::vector<VocabShard> shards;
  for (std::int64_t first = 0; first < shape.padded; first += width) {
    shards.push_back({.first = first, .width = width, .num_valid = shape.valid});
    parts.push_back(tensor_of(backend, type, columns(logits, shape.padded, first, width)));
    const Tensor own = poisoned(backend, accumulator, shape.rows);
    backend.row_maxima(parts.back(), shards.back(), own, shape.rows);
    backend.maximum(own, maxima);
  }
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    const Tensor own = poisoned(backend, accumulator, 2 * shape.rows);
    backend.softmax_sums(parts[rank], shards[rank], ids, maxima, own, shape.rows);
    backend.add(own, sums);
  }
  const Tensor total = tensor_of(backend, DataType::kFloat64, {0.0});
  backend.add_losses(sums, total, shape.rows);
  FoundLoss found{read_values(maxima), read_values(sums), read_values(total)[0],
                  Values(logits.size())};
  for (std::size_t rank = 0; rank < parts.size(); ++rank) {
    backend.cross_entropy_backward(parts[rank], shards[rank], ids, maxima, sums, kScale,
                                   shape.rows);
    const Values own = read_values(parts[rank]);
    for (std::int64_t i = 0; i < shape.rows * width; ++i) {
      found.gradient[i / width * shape.padded + shards[rank].first + i % width] = own[i];
    }
  }
  return found;
}

TEST(CrossEntropy, EqualsTheDefinitionOnOneRankAndOnSeveral) {
  CpuBackend backend;
  for (const DataType type : kWorkingTypes) {
    const double unit = rounding_of(accumulator_of(type));
    for (const Case& shape : kCases) {
      // Columns that pad hold what would show in every sum.
      Values logits = random_values(shape.rows * shape.padded, 1, type);
      for (std::int64_t i = 0; i < shape.rows * shape.padded; ++i) {
        if (i % shape.padded >= shape.valid) {
          logits[i] = i % 2 == 0 ? std::numeric_limits<double>::quiet_NaN() : 1e4;
        }
      }
      const Values targets = targets_of(shape);
      const NaiveLoss expected = naive_loss(shape, logits, targets);
      for (const int ranks : {1, 2, 4}) {
        const FoundLoss found = run(backend, type, shape, logits, targets, ranks);
        expect_close({found.loss}, {expected.loss}, 64.0 * unit, 1.0, "loss");
        expect_close(found.gradient, expected.gradient, 1.01 * rounding_of(type) + 64.0 * unit,
                     1e-4, std::string(name_of(type)));
      }
    }
  }
}

TEST(CrossEntropy, GivesTheSameMaximaAndNearlyTheSameSumsInEveryCut) {
  CpuBackend backend;
  const Case shape{.rows = 6, .padded = 512, .valid = 509};
  for (const DataType type : kWorkingTypes) {
    const Values logits = random_values(shape.rows * shape.padded, 2, type);
    const FoundLoss whole = run(backend, type, shape, logits, targets_of(shape), 1);
    for (const int ranks : {2, 4}) {
      const FoundLoss cut = run(backend, type, shape, logits, targets_of(shape), ranks);
      EXPECT_EQ(cut.maxima, whole.maxima);
      expect_close(cut.sums, whole.sums, 16.0 * rounding_of(accumulator_of(type)), 1.0, "sums");
      expect_close(cut.gradient, whole.gradient,
                   2.0 * rounding_of(type) + 32.0 * rounding_of(accumulator_of(type)), 1e-4,
                   "gradient");
    }
  }
}

TEST(CrossEntropy, GradientEqualsFiniteDifferencesOnShards) {
  CpuBackend backend;
  const auto type = DataType::kFloat64;
  const Case shape{.rows = 3, .padded = 12, .valid = 10};
  const Values logits = random_values(shape.rows * shape.padded, 3);
  const Values targets = targets_of(shape);
  for (const int ranks : {1, 2, 4}) {
    const Values expected = numeric_gradient(logits, [&](const Values& moved) {
      return kScale * run(backend, type, shape, moved, targets, ranks).loss;
    });
    expect_close(run(backend, type, shape, logits, targets, ranks).gradient, expected, 1e-6, 1.0,
                 std::to_string(ranks));
  }
}

TEST(CrossEntropy, DoesNotOverflowForLargeLogits) {
  CpuBackend backend;
  const Case shape{.rows = 1, .padded = 4, .valid = 4};
  const FoundLoss found =
      run(backend, DataType::kFloat32, shape, {1000.0, 990.0, -1000.0, 0.0}, {1}, 2);
  // log(1 + e^-10) + 10.
  EXPECT_NEAR(found.loss, 10.0 + std::log1p(std::exp(-10.0)), 1e-5);
  expect_close(found.gradient, {kScale, -kScale, 0.0, 0.0}, 1e-4, 1.0, "gradient");
}

TEST(RowMaxima, AreMinusInfinityWhereARankHasNoValidColumn) {
  CpuBackend backend;
  const Tensor maxima = poisoned(backend, DataType::kFloat32, 2);
  backend.row_maxima(tensor_of(backend, DataType::kFloat32, Values(8, 1.0)),
                     {.first = 8, .width = 4, .num_valid = 8}, maxima, 2);
  EXPECT_EQ(read_values(maxima), Values(2, -std::numeric_limits<double>::infinity()));
}

TEST(RowMaxima, AreNotNumbersWhereALogitIsNot) {
  CpuBackend backend;
  for (const std::size_t place : {0, 20, 39}) {
    Values logits(40, 1.0);
    logits[place] = std::numeric_limits<double>::quiet_NaN();
    const Tensor maxima = poisoned(backend, DataType::kFloat32, 1);
    backend.fill(maxima, 0.0);
    backend.row_maxima(tensor_of(backend, DataType::kFloat32, logits),
                       {.width = 40, .num_valid = 40}, maxima, 1);
    EXPECT_TRUE(std::isnan(read_values(maxima)[0])) << place;
  }
}

}  // namespace
}  // namespace ptdp
