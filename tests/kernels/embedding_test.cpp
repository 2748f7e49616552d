// Token and position embeddings.
#include <gtest/gtest.h>

#include <array>
#include <random>

#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

class Embedding : public OnBackend {
 protected:
  [[nodiscard]] Buffer put_ids(const Values& ids) { return put(DataType::kInt32, ids); }
};
using Positions = OnBackend;

class EmbeddingGradient : public Embedding {
 protected:
  /// Returns the gradient of a table's rows from `first` on, added to `before`. Expects that the
  /// memory after it does not change.
  Values gradient_of(const Values& ids, const Buffer& dy, std::int64_t first,
                     const Values& before) {
    const auto size = static_cast<std::int64_t>(before.size());
    const std::int64_t width = dy.size / static_cast<std::int64_t>(ids.size());
    Values followed = before;
    followed.insert(followed.end(), width, 1.0);
    const Buffer memory = put(accumulator_of(dy.type), followed);
    backend().embedding_gradient(put_ids(ids), dy, first, memory.slice(0, size));
    EXPECT_EQ(get(memory.slice(size, width)), Values(width, 1.0));
    return get(memory.slice(0, size));
  }

  void expect_sums(const Values& ids, const Values& dy, DataType type, std::int64_t first,
                   const Values& before) {
    const auto width = static_cast<std::int64_t>(dy.size() / ids.size());
    const auto size = static_cast<std::int64_t>(before.size());
    Values expected = before;
    for (std::size_t i = 0; i < dy.size(); ++i) {
      const auto row = static_cast<std::int64_t>(ids[i / width]) - first;
      if (row >= 0 && row * width < size) {
        expected[row * width + i % width] += dy[i];
      }
    }
    expect_near(gradient_of(ids, put(type, dy), first, before), expected, accumulator_of(type),
                {.units = 100.0}, "gradient");
  }
};

/// Returns tokens as frequent as in text: token t comes about 1/(t + 1) times as often as token 0.
Values skewed_ids(std::int64_t size, int vocabulary, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  Values ids(size);
  for (double& id : ids) {
    id = std::floor(std::pow(vocabulary, uniform(random))) - 1.0;
  }
  return ids;
}

TEST_F(Embedding, TakesRowsOfTheTableAndZeroesWhatAnotherRankHolds) {
  const Values ids = {14, 9, 10, 15, 12, 14, 0};
  for (const DataType type : computed_types()) {
    for (const std::int64_t width : {1, 7, 4, 264}) {
      const Values table = random_values(5 * width, 1, type);  // rows 10 to 14
      const Buffer out = poison(type, 7 * width);
      backend().embedding(put_ids(ids), put(type, table), 10, out);
      Values expected(7 * width, 0.0);
      for (std::int64_t i = 0; i < 7 * width; ++i) {
        const auto entry = static_cast<std::int64_t>(ids[i / width]) - 10;
        expected[i] = entry >= 0 && entry < 5 ? table[entry * width + i % width] : 0.0;
      }
      EXPECT_EQ(get(out), expected) << name_of(type) << " " << width;
    }
  }
  backend().embedding(put_ids({}), poison(widest_type(), 5), 0, Tensor());
}

TEST_F(EmbeddingGradient, SumsTheRowsOfSkewedTokensInEveryType) {
  for (const DataType type : computed_types()) {
    for (const std::int64_t width : {1, 33, 68, 1048}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << width);
      expect_sums(skewed_ids(700, 60, static_cast<unsigned>(width)),
                  random_values(700 * width, 1, type), type, 1,
                  random_values(50 * width, 2, accumulator_of(type)));
    }
  }
  backend().embedding_gradient(put_ids({}), Tensor(), 0, poison(widest_type(), 5));
}

// Runs of every length around those that are cut, wherever they begin among the sorted rows.
TEST_F(EmbeddingGradient, SumsRunsOfEveryLengthWhereverTheyBegin) {
  constexpr int width = 5;
  const DataType type = DataType::kFloat32;
  for (const int before : {0, 1, 31, 32, 40}) {
    for (const int length : {1, 2, 31, 32, 33, 63, 64, 65, 97, 300}) {
      SCOPED_TRACE(testing::Message() << before << " " << length);
      Values ids(before, 0.0);
      ids.insert(ids.end(), length, 1.0);
      ids.insert(ids.end(), 34, 2.0);
      ids.insert(ids.end(), 3, 3.0);
      ids.insert(ids.end(), length, 4.0);
      std::shuffle(ids.begin(), ids.end(), std::mt19937_64(static_cast<unsigned>(length)));
      const Values dy = random_values(static_cast<std::int64_t>(ids.size()) * width, 3, type);
      expect_sums(ids, dy, type, 0, Values(5 * width, 0.0));
      expect_sums(ids, dy, type, 0, Values(4 * width, 0.0));  // the last is another rank's
    }
  }
}

TEST_F(EmbeddingGradient, OfOneTokenInAllRowsIsTheirSum) {
  const DataType type = DataType::kBFloat16;
  expect_sums(Values(3001, 2.0), random_values(3001 * 12, 1, type), type, 0,
              random_values(4 * 12, 2, DataType::kFloat32));
}

// 2^24 + 1 is no f32: were rows added one by one to the gradient, both ones would be lost.
TEST_F(EmbeddingGradient, SumsEachEntryByItselfBeforeItIsAdded) {
  const Buffer ones = put(DataType::kFloat32, {1, 1});
  EXPECT_EQ(gradient_of({0, 0}, ones, 0, {0x1p24}), Values{0x1p24 + 2.0});
}

TEST_F(EmbeddingGradient, IsTheSameBitsOnAnyRankAlignmentAndRun) {
  constexpr std::int64_t rows = 900;
  constexpr std::int64_t width = 16;
  const Values ids = skewed_ids(rows, 40, 7);
  const Values zeros(40 * width, 0.0);
  for (const DataType type : computed_types()) {
    const Values dy = random_values(rows * width, 1, type);
    const Buffer aligned = put(type, dy);
    const Values whole = gradient_of(ids, aligned, 0, zeros);
    EXPECT_EQ(gradient_of(ids, aligned, 0, zeros), whole);
    EXPECT_EQ(gradient_of(ids, put(type, dy, /*offset=*/1), 0, zeros), whole);
    for (const std::int64_t first : {0, 8, 16, 24, 32}) {
      const auto begin = whole.begin() + first * width;
      EXPECT_EQ(gradient_of(ids, aligned, first, Values(8 * width, 0.0)),
                Values(begin, begin + 8 * width));
    }
  }
}

TEST_F(EmbeddingGradient, TouchesNothingWhereAllIsHeldByOtherRanks) {
  const Values before = random_values(3 * 8, 1, DataType::kFloat32);
  EXPECT_EQ(gradient_of(skewed_ids(100, 50, 1), poison(DataType::kFloat16, 100 * 8), 50, before),
            before);
}

TEST_F(Positions, AreAddedByPositionAndTheirGradientSumsTheBatch) {
  const TokenRange range{.batch = 3, .seq_length = 16, .runs = {{{3, 2}, {9, 3}}}};
  constexpr std::array<std::int64_t, 5> positions = {3, 4, 9, 10, 11};
  constexpr std::int64_t rows = 14;  // five positions, the last for two sequences
  for (const DataType type : computed_types()) {
    const DataType accumulator = accumulator_of(type);
    for (const std::int64_t width : {1, 17, 12, 264}) {
      SCOPED_TRACE(testing::Message() << name_of(type) << " " << width);
      const Values x = random_values(rows * width, 1, type);
      const Values table = random_values(16 * width, 2, type);
      Values sums = x;
      Values expected = random_values(16 * width, 3, accumulator);
      const Buffer y = put(type, x);
      const Buffer gradient = put(accumulator, expected);
      backend().add_positions(y, put(type, table), range, rows);
      backend().position_gradient(put(type, x), gradient, range, rows);
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const std::int64_t place = positions[i / width / 3] * width + i % width;
        sums[i] = rounded(rounded(x[i] + table[place], accumulator), type);
        expected[place] += x[i];
      }
      EXPECT_EQ(get(y), sums);
      expect_near(get(gradient), expected, accumulator, {.units = 4.0}, "gradient");
    }
  }
  backend().add_positions(Tensor(), poison(widest_type(), 5), range, 0);
  backend().position_gradient(Tensor(), poison(widest_type(), 5), range, 0);
}

}  // namespace
}  // namespace ptdp
