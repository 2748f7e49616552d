// Token and position embeddings of a GPU against the host in f64.
#include <gtest/gtest.h>

#include "tests/kernels/cuda/device_values.h"

namespace ptdp {
namespace {

class EmbeddingOnGpu : public OnGpu {
 protected:
  [[nodiscard]] Tensor ids_on_gpu(const Values& ids) { return on_gpu(DataType::kInt32, ids); }

  /// The gradient of a table's rows [first, first + entries) that holds `before`. What follows it
  /// in memory stays as it is.
  Values gradient_of(const Values& ids, const Buffer& dy, std::int64_t first,
                     const Values& before) {
    const auto size = static_cast<std::int64_t>(before.size());
    const std::int64_t width = dy.size / static_cast<std::int64_t>(ids.size());
    const Tensor memory(gpu(), DataType::kFloat32, size + width);
    gpu().fill(memory, 1.0);
    const Buffer gradient = memory.buffer().slice(0, size);
    gpu().copy(on_gpu(DataType::kFloat32, before), gradient);
    gpu().embedding_gradient(ids_on_gpu(ids), dy, first, gradient);
    EXPECT_EQ(values_of(memory.buffer().slice(size, width)), Values(width, 1.0));
    return values_of(gradient);
  }
  Values expected_gradient(const Values& ids, const Values& dy, std::int64_t first,
                           const Values& before) {
    const Tensor gradient = tensor_of(host(), kDouble, before);
    host().embedding_gradient(tensor_of(host(), DataType::kInt32, ids),
                              tensor_of(host(), kDouble, dy), first, gradient);
    return read_values(gradient);
  }
};

/// Tokens as text has them: token t about 1/(t + 1) times as often as token 0.
Values skewed_ids(std::int64_t size, int vocabulary, unsigned seed) {
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> uniform;
  Values ids(static_cast<std::size_t>(size));
  for (double& id : ids) {
    id = std::floor(std::pow(vocabulary, uniform(random))) - 1.0;
  }
  return ids;
}

TEST_F(EmbeddingOnGpu, TakesRowsOfTheTableAndZeroesWhatAnotherRankHolds) {
  const Values ids = {14, 9, 10, 15, 12, 14, 0};
  for (const DataType type : kGpuTypes) {
    for (const std::int64_t width : {1, 7, 4, 264}) {
      const Values table = random_values(5 * width, 1, type);  // rows 10 to 14
      const Tensor out = poisoned_on_gpu(type, 7 * width);
      gpu().embedding(ids_on_gpu(ids), on_gpu(type, table), 10, out);
      Values expected(static_cast<std::size_t>(7 * width), 0.0);
      for (std::int64_t i = 0; i < 7 * width; ++i) {
        const auto entry = static_cast<std::int64_t>(ids[i / width]) - 10;
        expected[i] = entry >= 0 && entry < 5 ? table[entry * width + i % width] : 0.0;
      }
      EXPECT_EQ(values_of(out), expected) << name_of(type) << " " << width;
    }
  }
  gpu().embedding(ids_on_gpu({}), poisoned_on_gpu(DataType::kFloat32, 5), 0, Tensor());
}

TEST_F(EmbeddingOnGpu, GradientOfSkewedTokensEqualsTheHosts) {
  for (const DataType type : kGpuTypes) {
    for (const std::int64_t width : {1, 33, 68, 1048}) {
      const Values ids = skewed_ids(700, 60, static_cast<unsigned>(width));
      const Values dy = random_values(700 * width, 1, type);
      const Values before = random_values(50 * width, 2, DataType::kFloat32);
      expect_near_in_norm(gradient_of(ids, on_gpu(type, dy), 1, before),
                          expected_gradient(ids, dy, 1, before), allowed_error(DataType::kFloat32),
                          std::string(name_of(type)));
    }
  }
  gpu().embedding_gradient(ids_on_gpu({}), Tensor(), 0, poisoned_on_gpu(DataType::kFloat32, 5));
}

// Runs of every length around those that are cut, wherever they begin among the sorted rows.
TEST_F(EmbeddingOnGpu, GradientSumsRunsOfEveryLengthWhereverTheyBegin) {
  constexpr std::int64_t width = 5;
  for (const int before : {0, 1, 31, 32, 40}) {
    for (const int length : {1, 2, 31, 32, 33, 63, 64, 65, 97, 300}) {
      Values ids;
      ids.insert(ids.end(), static_cast<std::size_t>(before), 0.0);
      ids.insert(ids.end(), static_cast<std::size_t>(length), 1.0);
      ids.insert(ids.end(), 34, 2.0);
      ids.insert(ids.end(), 3, 3.0);
      ids.insert(ids.end(), static_cast<std::size_t>(length), 4.0);
      std::shuffle(ids.begin(), ids.end(), std::mt19937_64(static_cast<unsigned>(length)));
      const Values dy =
          random_values(static_cast<std::int64_t>(ids.size()) * width, 3, DataType::kFloat32);
      for (const int entries : {4, 5}) {  // without the last, another rank's
        const Values zeros(entries * width, 0.0);
        expect_near_in_norm(gradient_of(ids, on_gpu(DataType::kFloat32, dy), 0, zeros),
                            expected_gradient(ids, dy, 0, zeros), allowed_error(DataType::kFloat32),
                            std::to_string(before) + " " + std::to_string(length));
      }
    }
  }
}

TEST_F(EmbeddingOnGpu, GradientOfOneTokenInAllRowsIsTheirSum) {
  constexpr std::int64_t rows = 3001;
  constexpr std::int64_t width = 12;
  const Values dy = random_values(rows * width, 1, DataType::kBFloat16);
  const Values ids(rows, 2.0);
  const Values before = random_values(4 * width, 2, DataType::kFloat32);
  expect_near_in_norm(gradient_of(ids, on_gpu(DataType::kBFloat16, dy), 0, before),
                      expected_gradient(ids, dy, 0, before), allowed_error(DataType::kFloat32),
                      "one token");
}

// 2^24 + 1 is no f32: were rows added one by one to the gradient, both ones would be lost.
TEST_F(EmbeddingOnGpu, GradientSumsEachEntryByItselfBeforeItIsAdded) {
  const Tensor ones = on_gpu(DataType::kFloat32, {1, 1});
  EXPECT_EQ(gradient_of({0, 0}, ones, 0, {0x1p24}), Values{0x1p24 + 2.0});
}

TEST_F(EmbeddingOnGpu, GradientIsTheSameBitsOnAnyRankAlignmentAndRun) {
  constexpr std::int64_t rows = 900;
  constexpr std::int64_t width = 16;
  const Values ids = skewed_ids(rows, 40, 7);
  for (const DataType type : kGpuTypes) {
    const Values dy = random_values(rows * width, 1, type);
    const Tensor aligned = on_gpu(type, dy);
    Values moved = dy;
    moved.insert(moved.begin(), 0.0);
    const Tensor misaligned = on_gpu(type, moved);
    const Values whole = gradient_of(ids, aligned, 0, Values(40 * width, 0.0));
    EXPECT_EQ(gradient_of(ids, aligned, 0, Values(40 * width, 0.0)), whole);
    EXPECT_EQ(
        gradient_of(ids, misaligned.buffer().slice(1, rows * width), 0, Values(40 * width, 0.0)),
        whole);
    for (const std::int64_t first : {0, 8, 16, 24, 32}) {
      const auto begin = whole.begin() + first * width;
      EXPECT_EQ(gradient_of(ids, aligned, first, Values(8 * width, 0.0)),
                Values(begin, begin + 8 * width));
    }
  }
}

TEST_F(EmbeddingOnGpu, GradientTouchesNothingWhereAllIsHeldByOtherRanks) {
  const Tensor dy = poisoned_on_gpu(DataType::kFloat16, 100 * 8);
  const Values before = random_values(3 * 8, 1, DataType::kFloat32);
  EXPECT_EQ(gradient_of(skewed_ids(100, 50, 1), dy, 50, before), before);
}

TEST_F(EmbeddingOnGpu, AddsPositionsAndSumsTheBatchForTheirGradient) {
  const TokenRange range{.first_position = 3, .batch = 3, .seq_length = 8};
  constexpr std::int64_t rows = 14;  // five positions, the last for two sequences
  for (const DataType type : kGpuTypes) {
    for (const std::int64_t width : {1, 17, 12, 264}) {
      const Values x = random_values(rows * width, 1, type);
      const Values table = random_values(8 * width, 2, type);
      const Values before = random_values(8 * width, 3, DataType::kFloat32);
      const Tensor y = on_gpu(type, x);
      gpu().add_positions(y, on_gpu(type, table), range, rows);
      Values sums = x;
      for (std::int64_t i = 0; i < rows * width; ++i) {
        const double position = table[(3 + i / width / 3) * width + i % width];
        sums[i] = rounded(rounded(x[i] + position, DataType::kFloat32), type);
      }
      EXPECT_EQ(values_of(y), sums) << name_of(type) << " " << width;

      const Tensor gradient = on_gpu(DataType::kFloat32, before);
      gpu().position_gradient(on_gpu(type, x), gradient, range, rows);
      const Tensor expected = tensor_of(host(), kDouble, before);
      host().position_gradient(tensor_of(host(), kDouble, x), expected, range, rows);
      expect_near_in_norm(values_of(gradient), read_values(expected),
                          allowed_error(DataType::kFloat32), std::string(name_of(type)));
    }
  }
  gpu().add_positions(Tensor(), poisoned_on_gpu(DataType::kFloat32, 5), range, 0);
  gpu().position_gradient(Tensor(), poisoned_on_gpu(DataType::kFloat32, 5), range, 0);
}

}  // namespace
}  // namespace ptdp
