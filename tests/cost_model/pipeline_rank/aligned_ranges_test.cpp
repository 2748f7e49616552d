// Tests of the padding of the ranges that replicas reduce and gather, counted by hand.
#include "cost_model/pipeline_rank/aligned_ranges.h"

#include <gtest/gtest.h>

#include <random>

#include "cost_model/inputs/parameter_counts.h"
#include "cost_model/pipeline_rank/rank_parameters.h"

namespace ptdp {
namespace {

/// Returns a GPT with 8 layers, h = 8, s = 16 and a vocabulary of 512 tokens.
TransformerConfig eight_layers() {
  return resolved({.num_layers = 8,
                   .hidden_size = 8,
                   .num_attention_heads = 4,
                   .vocab_size = 512,
                   .seq_length = 16},
                  "test");
}

// Parameters of one layer: 12h² + 13h; table 512·8, positions 16·8, final norm 16.
constexpr std::int64_t kLayer = 872;
constexpr std::int64_t kTable = 4096;
constexpr std::int64_t kPositions = 128;
constexpr std::int64_t kNorm = 16;

std::int64_t padding_of(const TransformerConfig& model, const ParallelConfig& config, int rank) {
  return padding_of_rank(model, config, LayersOfRanks(model, config), rank);
}

TEST(Padded, IsTheNextMultipleOf64ForEachRank) {
  EXPECT_EQ(padded(0, 3), 0);
  EXPECT_EQ(padded(1, 3), 192);
  EXPECT_EQ(padded(192, 3), 192);
  EXPECT_EQ(padded(193, 3), 384);
  EXPECT_EQ(padded(65, 1), 65);
}

TEST(BucketBegin, CutsAtMultiplesAsEquallyAsTheyAllow) {
  std::mt19937 random(5);
  for (int round = 0; round < 1000; ++round) {
    const auto sharers = static_cast<int>(1 + random() % 64);
    const auto n = static_cast<int>(1 + random() % 50);
    const std::int64_t a = std::int64_t{64} * sharers;
    const std::int64_t size = a * static_cast<std::int64_t>(random() % 1'000'000);
    EXPECT_EQ(bucket_begin(size, sharers, n, 0), 0);
    EXPECT_EQ(bucket_begin(size, sharers, n, n), size);
    for (int k = 0; k < n; ++k) {
      const std::int64_t begin = bucket_begin(size, sharers, n, k);
      const std::int64_t count = bucket_begin(size, sharers, n, k + 1) - begin;
      EXPECT_EQ(begin % a, 0);
      EXPECT_LE(count * n, size + a * n);
      EXPECT_GE(count * n, size - a * n);
    }
  }
}

TEST(NumSharers, AreTheReplicasThatShardTheOptimizer) {
  EXPECT_EQ(num_sharers({.pp = 2, .dp = 8}), 1);
  EXPECT_EQ(num_sharers({.pp = 2, .dp = 8, .zero_stage = 1}), 8);
  EXPECT_EQ(num_sharers({.dp = 8, .zero_stage = 3}), 8);
  EXPECT_EQ(num_sharers({.pp = 2, .dp = 8, .schedule = ScheduleKind::kDualPipe, .zero_stage = 1}),
            16);
  EXPECT_EQ(num_sharers({.dp = 8, .zero_stage = 2, .dp_replicate = 2}), 4);
}

// One store: 8·872 + 4096 + 128 + 16 = 11216 parameters, of which 192 leave 80.
TEST(PaddingOfRank, IsThatOfOneRangeWithoutAPipeline) {
  ASSERT_EQ(parameter_count(eight_layers()), 11216);
  EXPECT_EQ(padding_of(eight_layers(), {}, 0), 0);
  EXPECT_EQ(padding_of(eight_layers(), {.dp = 3}, 0), 0);
  EXPECT_EQ(padding_of(eight_layers(), {.dp = 3, .zero_stage = 1}, 0), 112);
}

// A layer of 872 is 960 for three ranks, and the ends' 4240 are 4416.
TEST(PaddingOfRank, IsThatOfEachUnitWhereGradientsAreSharded) {
  for (const int zero : {2, 3}) {
    EXPECT_EQ(padding_of(eight_layers(), {.dp = 3, .zero_stage = zero}, 0), 8 * 88 + 176);
  }
  EXPECT_EQ(padding_of(eight_layers(), {.zero_stage = 3}, 0), 0);  // one rank shards nothing
}

// Four stages of two layers, 1744 parameters, for three ranks. The first has the table, 4224 with
// padding, and 1872 more, padded by 48; two in the middle 1744, padded by 176; the last the table
// and 1760, padded by 160.
TEST(PaddingOfRank, KeepsTheTiedTableApartOnTheEndsOfAPipeline) {
  const ParallelConfig config{.pp = 4, .dp = 3, .zero_stage = 1};
  EXPECT_EQ(tied_range_size(eight_layers(), config), 4224);
  EXPECT_EQ(padding_of(eight_layers(), config, 0), 128 + 48);
  EXPECT_EQ(padding_of(eight_layers(), config, 1), 176);
  EXPECT_EQ(padding_of(eight_layers(), config, 2), 176);
  EXPECT_EQ(padding_of(eight_layers(), config, 3), 128 + 160);
  TransformerConfig untied = eight_layers();
  untied.untied_embeddings = true;
  EXPECT_EQ(tied_range_size(untied, config), 0);
  EXPECT_EQ(padding_of(untied, config, 0), padded(kTable + 1872, 3) - kTable - 1872);
}

// With two chunks each stage has a store of its own: two of one layer each on every rank.
TEST(PaddingOfRank, AddsUpTheVirtualStages) {
  const ParallelConfig config{
      .pp = 4, .dp = 3, .vpp = 2, .schedule = ScheduleKind::kInterleaved, .zero_stage = 1};
  EXPECT_EQ(padding_of(eight_layers(), config, 1), 2 * 88);
  EXPECT_EQ(padding_of(eight_layers(), config, 0),
            128 + padded(kLayer + kPositions, 3) - kLayer - kPositions + 88);
}

// A V has both ends on the first rank, so the table is tied to nothing. The first virtual stage has
// it and the positions, the last the norm.
TEST(PaddingOfRank, SplitsTheEndsOverTheTwoStagesOfAV) {
  for (const bool untied : {false, true}) {
    TransformerConfig model = eight_layers();
    model.untied_embeddings = untied;
    const ParallelConfig config{
        .pp = 4, .dp = 3, .vpp = 2, .schedule = ScheduleKind::kZbV, .zero_stage = 1};
    const std::int64_t first = kLayer + kTable + kPositions;
    const std::int64_t last = kLayer + kNorm + (untied ? kTable : 0);
    EXPECT_EQ(tied_range_size(model, config), 0);
    EXPECT_EQ(padding_of(model, config, 0), padded(first, 3) - first + padded(last, 3) - last);
  }
}

}  // namespace
}  // namespace ptdp
