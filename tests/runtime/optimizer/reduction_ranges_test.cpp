// Tests of where the ranges begin and end that replicas reduce and gather.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "runtime/optimizer/optimizer.h"
#include "tests/runtime/model/idle_backend.h"

namespace ptdp {
namespace {

void declare(ParameterStore& store, GradientGroup group, std::int64_t size) {
  store.declare({.name = "parameter " + std::to_string(store.parameters().size()),
                 .block = {.rows = 1, .columns = size, .total_columns = size},
                 .total_rows = 1,
                 .group = group});
}

bool equals(const Part& part, std::int64_t first, std::int64_t count) {
  return part.first == first && part.count == count;
}

// The 1500 tied elements by themselves. The other 610 are cut at multiples of 64, of which they
// have nine: 3, 3, and 3 with the 34 that are left.
TEST(ReductionRanges, KeepTheTiedTableApartAndCutTheRestAlike) {
  IdleBackend backend;
  ParameterStore store;
  declare(store, GradientGroup::kOwn, 600);
  declare(store, GradientGroup::kSummedOverTensor, 10);
  declare(store, GradientGroup::kTied, 1500);
  store.allocate(backend, DataType::kFloat32, /*seed=*/1);
  EXPECT_EQ(store.size(), 1500 + 610);
  const auto first = reduction_ranges(store, 0, 3);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_TRUE(equals(first[0], 0, 1500));
  EXPECT_TRUE(equals(first[1], 1500, 192));
  const auto second = reduction_ranges(store, 1, 3);
  ASSERT_EQ(second.size(), 1U);
  EXPECT_TRUE(equals(second[0], 1692, 192));
  const auto third = reduction_ranges(store, 2, 3);
  ASSERT_EQ(third.size(), 1U);
  EXPECT_TRUE(equals(third[0], 1884, 226));
}

// With two ranks 610 elements are 640, five times 128. Seven buckets leave two without any.
TEST(ReductionRanges, AreNoneWhereThereAreMoreBucketsThanCuts) {
  IdleBackend backend;
  ParameterStore store;
  declare(store, GradientGroup::kOwn, 610);
  store.allocate(backend, DataType::kFloat32, /*seed=*/1, {.group_size = 2});
  std::size_t ranges = 0;
  for (int bucket = 0; bucket < 7; ++bucket) {
    ranges += reduction_ranges(store, bucket, 7).size();
  }
  EXPECT_EQ(ranges, 5U);
}

/// A store with random parameters, unsharded or sharded by units.
struct RandomStore {
  explicit RandomStore(std::mt19937& random)
      : sharers(1 + static_cast<int>(random() % 16)), is_sharded(random() % 2 == 0) {
    const auto count = static_cast<int>(1 + random() % 12);
    for (int i = 0; i < count; ++i) {
      if (is_sharded && i > 0 && random() % 3 == 0) {
        store.begin_unit();
      }
      constexpr std::array groups = {GradientGroup::kOwn, GradientGroup::kSummedOverTensor,
                                     GradientGroup::kTied};
      declare(store, groups[random() % (is_sharded ? 2 : 3)],
              1 + static_cast<std::int64_t>(random() % 5000));
    }
    store.allocate(backend, DataType::kBFloat16, /*seed=*/1,
                   {.group_size = sharers,
                    .group_rank = static_cast<int>(random()) % sharers,
                    .of_gradients = is_sharded});
  }

  IdleBackend backend;
  ParameterStore store;
  int sharers;
  bool is_sharded;
};

/// Expects that every rank's part of a range begins at a multiple of 64 and is as large as others'.
void expect_aligned(const Part& range, int sharers) {
  const std::int64_t a = std::int64_t{64} * sharers;
  EXPECT_GT(range.count, 0);
  if (sharers == 1) {
    return;  // One rank shares nothing and pads nothing.
  }
  EXPECT_EQ(range.first % a, 0);
  EXPECT_EQ(range.count % a, 0);
  for (int rank = 0; rank < sharers; ++rank) {
    const Part part = part_of(range.count, sharers, rank);
    EXPECT_EQ((range.first + part.first) % 64, 0);
    EXPECT_EQ(part.count, range.count / sharers);
  }
}

/// Expects that parameters follow on each other, but for less than 64·d elements of padding where
/// another range begins.
void expect_dense(const RandomStore& random) {
  std::vector<Parameter> parameters(random.store.parameters().begin(),
                                    random.store.parameters().end());
  std::ranges::sort(parameters, {}, &Parameter::first);
  const std::int64_t a = random.sharers > 1 ? std::int64_t{64} * random.sharers : 1;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    const Parameter& here = parameters[i];
    const bool begins_range =
        i > 0 && (random.is_sharded ? parameters[i - 1].unit != here.unit
                                    : parameters[i - 1].group == GradientGroup::kTied &&
                                          here.group != GradientGroup::kTied);
    EXPECT_EQ(here.first, begins_range ? (end + a - 1) / a * a : end);
    end = here.first + here.size();
  }
  EXPECT_GE(random.store.size(), end);
  EXPECT_LT(random.store.size(), end + a);
}

TEST(ReductionRanges, AreAlignedAndCoverEveryParameterOnce) {
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    const RandomStore made(random);
    const auto num_buckets = static_cast<int>(1 + random() % 40);
    SCOPED_TRACE("round " + std::to_string(round) + ", d " + std::to_string(made.sharers) + ", " +
                 std::to_string(num_buckets) + " buckets");
    std::int64_t end = 0;
    for (int bucket = 0; bucket < num_buckets; ++bucket) {
      for (const Part& range : reduction_ranges(made.store, bucket, num_buckets)) {
        EXPECT_EQ(range.first, end);  // ascending, disjoint, without gaps
        expect_aligned(range, made.sharers);
        end = range.first + range.count;
      }
    }
    EXPECT_EQ(end, made.store.size());
    expect_dense(made);
  }
}

// A rank of eight tensor ranks: nine layers of GPT with h = 4096, the table of 50,304 tokens and
// 2048 positions. Cut into parts as equal as elements allow, no bucket of the layers would do.
TEST(ReductionRanges, DivideByEightReplicasIn100MegabyteBuckets) {
  constexpr std::int64_t hidden = 4096;
  constexpr int sharers = 8;
  IdleBackend backend;
  ParameterStore store;
  declare(store, GradientGroup::kTied, 50304 / 8 * hidden);
  declare(store, GradientGroup::kOwn, 2048 * hidden);
  for (int layer = 0; layer < 9; ++layer) {
    for (const std::int64_t rows : {3, 1, 4, 4}) {  // QKV, projection, h→4h, 4h→h
      declare(store, GradientGroup::kOwn, rows * hidden * hidden / 8);
    }
    declare(store, GradientGroup::kOwn, 7 * hidden / 8);  // biases of columns
    for (int i = 0; i < 6; ++i) {                         // two norms, biases of rows
      declare(store, GradientGroup::kSummedOverTensor, hidden);
    }
  }
  store.allocate(backend, DataType::kBFloat16, /*seed=*/1, {.group_size = sharers});
  const auto num_buckets =
      static_cast<int>((store.all_gradients().bytes() + 99'999'999) / 100'000'000);
  EXPECT_EQ(num_buckets, 11);  // 261 million parameters of four bytes
  int ranges = 0;
  for (int bucket = 0; bucket < num_buckets; ++bucket) {
    for (const Part& range : reduction_ranges(store, bucket, num_buckets)) {
      ++ranges;
      EXPECT_EQ(range.count % sharers, 0);
      for (int rank = 0; rank < sharers; ++rank) {
        const Part part = part_of(range.count, sharers, rank);
        EXPECT_EQ((range.first + part.first) * bytes_of(DataType::kBFloat16) % 16, 0);
        EXPECT_EQ(part.count * bytes_of(DataType::kBFloat16) % 16, 0);
      }
    }
  }
  EXPECT_EQ(ranges, num_buckets + 1);
}

}  // namespace
}  // namespace ptdp
