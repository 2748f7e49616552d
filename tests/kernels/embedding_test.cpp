// Token and position embeddings of the host's backend, and initial values.
#include <gtest/gtest.h>

#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/finite_differences.h"
#include "tests/kernels/host_values.h"
#include "tests/kernels/philox_reference.h"

namespace ptdp {
namespace {

Tensor ids_of(Backend& backend, const Values& ids) {
  return tensor_of(backend, DataType::kInt32, ids);
}

TEST(Embedding, TakesRowsOfTheTableAndZeroesWhatAnotherRankHolds) {
  CpuBackend backend;
  constexpr std::int64_t width = 7;
  for (const DataType type : kWorkingTypes) {
    const Values table = random_values(5 * width, 1, type);  // rows 10 to 14
    const Values ids = {14, 9, 10, 15, 12, 14, 0};
    const Tensor out = poisoned(backend, type, 7 * width);
    backend.embedding(ids_of(backend, ids), tensor_of(backend, type, table), 10, out);
    const Values found = read_values(out);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      for (std::int64_t c = 0; c < width; ++c) {
        const auto entry = static_cast<std::int64_t>(ids[row]) - 10;
        const double expected = entry >= 0 && entry < 5 ? table[entry * width + c] : 0.0;
        EXPECT_EQ(found[row * width + c], expected);
      }
    }
  }
  backend.embedding(ids_of(backend, {}), poisoned(backend, kDouble, 5), 0, Tensor());
}

TEST(EmbeddingGradient, IsTheAdjointOfTheLookup) {
  CpuBackend backend;
  constexpr std::int64_t width = 3;
  const Values ids = {4, 2, 4, 9, 4, 3};
  const Values table = random_values(4 * width, 1);  // rows 2 to 5
  const Values dy = random_values(6 * width, 2);
  const Values expected = numeric_gradient(table, [&](const Values& moved) {
    const Tensor out = poisoned(backend, kDouble, 6 * width);
    backend.embedding(ids_of(backend, ids), tensor_of(backend, kDouble, moved), 2, out);
    return dot(read_values(out), dy);
  });
  const Tensor gradient = tensor_of(backend, kDouble, Values(table.size(), 0.0));
  backend.embedding_gradient(ids_of(backend, ids), tensor_of(backend, kDouble, dy), 2, gradient);
  expect_close(read_values(gradient), expected, 1e-6, 1.0, "table");
}

// 2^24 + 1 is no f32: were rows added one by one to the gradient, both ones would be lost.
TEST(EmbeddingGradient, SumsEachEntryByItselfBeforeItIsAdded) {
  CpuBackend backend;
  const Tensor gradient = tensor_of(backend, DataType::kFloat32, {0x1p24});
  backend.embedding_gradient(ids_of(backend, {0, 0}),
                             tensor_of(backend, DataType::kFloat32, {1, 1}), 0, gradient);
  EXPECT_EQ(read_values(gradient), Values{0x1p24 + 2.0});
}

TEST(EmbeddingGradient, AccumulatesManyRowsInEveryType) {
  CpuBackend backend;
  constexpr std::int64_t rows = 500;
  constexpr std::int64_t width = 33;
  constexpr std::int64_t entries = 20;
  for (const DataType type : kWorkingTypes) {
    const DataType accumulator = accumulator_of(type);
    Values ids(rows);
    for (std::int64_t r = 0; r < rows; ++r) {
      ids[r] = static_cast<double>((r * r + 3 * r) % 26);
    }
    const Values dy = random_values(rows * width, 1, type);
    Values expected = random_values(entries * width, 2, accumulator);
    const Tensor gradient = tensor_of(backend, accumulator, expected);
    backend.embedding_gradient(ids_of(backend, ids), tensor_of(backend, type, dy), 3, gradient);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto entry = static_cast<std::int64_t>(ids[r]) - 3;
      for (std::int64_t c = 0; c < width && entry >= 0 && entry < entries; ++c) {
        expected[entry * width + c] += dy[r * width + c];
      }
    }
    expect_close(read_values(gradient), expected, 100.0 * rounding_of(accumulator), 1.0,
                 std::string(name_of(type)));
  }
}

TEST(Positions, AreAddedByPositionAndTheirGradientSumsTheBatch) {
  CpuBackend backend;
  constexpr std::int64_t width = 17;
  const TokenRange range{.first_position = 3, .batch = 2, .seq_length = 8};
  for (const DataType type : kWorkingTypes) {
    const DataType accumulator = accumulator_of(type);
    const Values x = random_values(6 * width, 1, type);
    const Values table = random_values(8 * width, 2, type);
    Values sums = x;
    Values expected = random_values(8 * width, 3, accumulator);
    const Tensor y = tensor_of(backend, type, x);
    const Tensor gradient = tensor_of(backend, accumulator, expected);
    backend.add_positions(y, tensor_of(backend, type, table), range, 6);
    backend.position_gradient(tensor_of(backend, type, x), gradient, range, 6);
    for (std::int64_t r = 0; r < 6; ++r) {
      for (std::int64_t c = 0; c < width; ++c) {
        sums[r * width + c] += table[(3 + r / 2) * width + c];
        expected[(3 + r / 2) * width + c] += x[r * width + c];
      }
    }
    expect_close(read_values(y), sums, 2.0 * rounding_of(type), 1e-3, "sum");
    expect_close(read_values(gradient), expected, 4.0 * rounding_of(accumulator), 1.0, "gradient");
  }
  backend.add_positions(Tensor(), poisoned(backend, kDouble, 5), range, 0);
  backend.position_gradient(Tensor(), poisoned(backend, kDouble, 5), range, 0);
}

TEST(FillNormal, GivesEachElementOfTheWholeTheSameValueInEveryBlock) {
  CpuBackend backend;
  constexpr std::int64_t rows = 6;
  constexpr std::int64_t columns = 10;
  const MatrixBlock all{.rows = rows, .columns = columns, .total_columns = columns};
  for (const DataType type : kWorkingTypes) {
    const Tensor whole = poisoned(backend, type, rows * columns);
    backend.fill_normal(whole, all, 99, 0.02);
    const Values values = read_values(whole);
    const MatrixBlock block{
        .first_row = 2, .first_column = 5, .rows = 3, .columns = 4, .total_columns = columns};
    const Tensor part = poisoned(backend, type, 12);
    backend.fill_normal(part, block, 99, 0.02);
    for (std::int64_t r = 0; r < 3; ++r) {
      for (std::int64_t c = 0; c < 4; ++c) {
        EXPECT_EQ(read_values(part)[r * 4 + c], values[(2 + r) * columns + 5 + c]);
      }
    }
  }
}

// Box & Muller from the words of an independent generator.
TEST(FillNormal, DrawsTheNormalVariateOfTheElementsNumber) {
  CpuBackend backend;
  constexpr std::uint64_t key = 0x0102030405060708U;
  const Tensor x = poisoned(backend, kDouble, 200);
  backend.fill_normal(x, {.rows = 1, .columns = 200, .total_columns = 200}, key, 2.0);
  Values expected;
  for (std::uint32_t i = 0; i < 200; ++i) {
    const PhiloxWords words = philox_reference({i, 0, 0, 0}, {0x05060708U, 0x01020304U});
    const auto uniform_of = [](std::uint32_t high, std::uint32_t low) {
      const auto bits = static_cast<double>(((std::uint64_t{high} << 32U) | low) >> 12U);
      return (bits + 0.5) / 4503599627370496.0;
    };
    expected.push_back(2.0 * std::sqrt(-2.0 * std::log(uniform_of(words[0], words[1]))) *
                       std::cos(2.0 * M_PI * uniform_of(words[2], words[3])));
  }
  expect_close(read_values(x), expected, 1e-13, 1.0, "normal");
}

}  // namespace
}  // namespace ptdp
