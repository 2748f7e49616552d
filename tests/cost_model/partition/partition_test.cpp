// Tests of partitions of layers into stages, against brute force and by hand.
#include "cost_model/partition/partition.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include "cost_model/error.h"
#include "tests/cost_model/partition/partitions.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

std::vector<LayerCost> layers_of(const std::vector<double>& times) {
  std::vector<LayerCost> layers(times.size());
  for (std::size_t i = 0; i < times.size(); ++i) {
    layers[i].time = Seconds(times[i]);
  }
  return layers;
}

/// Returns up to twelve layers whose costs are whole numbers, so that sums and sums of squares are
/// exact. They are random, small (with many ties and zeros), equal, or of huge ratios.
std::vector<LayerCost> random_layers(int fewest) {
  const int num_layers = *rc::gen::inRange(fewest, 13);
  const int kind = *rc::gen::inRange(0, 4);
  const int equal = *rc::gen::inRange(0, 5);
  std::vector<LayerCost> layers(static_cast<std::size_t>(num_layers));
  for (LayerCost& layer : layers) {
    switch (kind) {
      case 0:
        layer.time = Seconds(*rc::gen::inRange(0, 1000));
        break;
      case 1:
        layer.time = Seconds(*rc::gen::inRange(0, 3));
        break;
      case 2:
        layer.time = Seconds(equal);
        break;
      default:
        layer.time = Seconds(std::ldexp(1.0, *rc::gen::inRange(0, 22)));
    }
    layer.memory = Bytes(*rc::gen::inRange(0, 10));
    layer.kept = Bytes(*rc::gen::inRange(0, 5));
  }
  return layers;
}

/// Sets how many microbatches each rank has in flight, in half of all cases.
void put_in_flight(PartitionRequest& request) {
  if (*rc::gen::arbitrary<bool>()) {
    for (int rank = 0; rank < request.pp; ++rank) {
      request.in_flight.push_back(*rc::gen::inRange(0, 6));
    }
    std::sort(request.in_flight.rbegin(), request.in_flight.rend());
  }
}

PartitionRequest random_request(int most_vpp) {
  PartitionRequest request{.pp = *rc::gen::inRange(1, 5),
                           .vpp = *rc::gen::inRange(1, most_vpp + 1)};
  if (request.vpp == 2 && *rc::gen::arbitrary<bool>()) {
    request.placement = StagePlacement::kV;
  }
  if (*rc::gen::arbitrary<bool>()) {
    request.memory = Bytes(*rc::gen::inRange(5, 60));
    put_in_flight(request);
  }
  return request;
}

// By hand: 10 equal layers in 4 parts of at most 3; 2 + 2 + 3 + 3 is more even than 1 + 3 + 3 + 3,
// and its stages end earlier than those of 3 + 3 + 2 + 2.
TEST(Partition, OfEqualLayersIsEvenWithTheRestBehind) {
  EXPECT_EQ(*partition_layers(layers_of(std::vector<double>(10, 0.1)), {.pp = 4}),
            (std::vector{2, 2, 3, 3}));
}

// By hand: an embedding of half a layer, 12 layers, logits of two: 14.5 in 4 stages is 3.6 each, so
// 4 is the least. 3.5 + 3 + 4 + 4 and its reorderings have the least squares; 3.5 is in front.
TEST(Partition, CountsEmbeddingAndLogits) {
  std::vector<double> times(14, 1.0);
  times.front() = 0.5;
  times.back() = 2.0;
  EXPECT_EQ(*partition_layers(layers_of(times), {.pp = 4}), (std::vector{4, 3, 4, 3}));
}

TEST(Partition, EqualsBruteForceOnOneStagePerRank) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<LayerCost> layers = random_layers(1);
    const PartitionRequest request = random_request(1);
    const auto expected = best_partition(layers, request, [](const PartitionScore& score) {
      return std::tuple(score.slowest_rank, score.sum_of_squares);
    });
    RC_ASSERT(partition_layers(layers, request) == expected);
  }));
}

TEST(Partition, EqualsBruteForceOnSeveralStagesPerRank) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<LayerCost> layers = random_layers(1);
    const PartitionRequest request = random_request(3);
    const auto expected = best_partition(
        layers, request, [](const PartitionScore& score) { return score.slowest_rank; });
    const auto found = partition_layers(layers, request);
    RC_ASSERT(found.has_value() == expected.has_value());
    if (found) {
      const PartitionScore score = score_of(layers, request, *found);
      RC_ASSERT(score.slowest_rank == score_of(layers, request, *expected).slowest_rank);
      RC_ASSERT(score.fullest_rank <= request.memory.value_or(Bytes(1e9)).value());
    }
  }));
}

// Unlike layers: then the shortest longest stage; no three between the ends are equal.
TEST(Partition, HasShortStagesWhereTheSlowestRankAllows) {
  EXPECT_TRUE(rc::check([] {
    std::vector<LayerCost> layers = random_layers(5);
    layers[1].time = layers[2].time + Seconds(1.0);
    PartitionRequest request = random_request(3);
    request.pp = std::max(request.pp, 2);
    request.vpp = std::max(request.vpp, 2);
    if (!request.in_flight.empty()) {
      request.in_flight.resize(static_cast<std::size_t>(request.pp), 0.0);
    }
    const auto expected = best_partition(layers, request, [](const PartitionScore& score) {
      return std::tuple(score.slowest_rank, score.longest_stage);
    });
    const auto found = partition_layers(layers, request);
    RC_ASSERT(found.has_value() == expected.has_value());
    if (found) {
      const PartitionScore score = score_of(layers, request, *found);
      const PartitionScore least = score_of(layers, request, *expected);
      RC_ASSERT(score.slowest_rank == least.slowest_rank);
      RC_ASSERT(score.longest_stage == least.longest_stage);
    }
  }));
}

// By hand, a V of two ranks, so that the middle stages are rank 1's: five layers in four stages, of
// which one has two. On rank 0 these two would take it to 31 + 9 + 16 = 56 or 31 + 7 + 16 = 54 s;
// on rank 1 both ranks take 47 s, with 9 + 31 = 40 or 31 + 7 = 38 s as the longest stage.
TEST(Partition, HasTheShortestLongestStageOfEquallyFastOnes) {
  const std::vector<LayerCost> layers = layers_of({31, 9, 31, 7, 16});
  EXPECT_EQ(*partition_layers(layers, {.pp = 2, .vpp = 2, .placement = StagePlacement::kV}),
            (std::vector{1, 1, 2, 1}));
}

// Equal layers between an embedding and logits of any time and memory, as most models have.
TEST(Partition, OfAnEvenModelEqualsBruteForceOnSeveralStagesPerRank) {
  EXPECT_TRUE(rc::check([] {
    const LayerCost inner{Seconds(*rc::gen::inRange(1, 6)), Bytes(*rc::gen::inRange(1, 6)),
                          Bytes(*rc::gen::inRange(0, 3))};
    std::vector<LayerCost> layers(*rc::gen::inRange<std::size_t>(5, 12), inner);
    for (LayerCost* end : {&layers.front(), &layers.back()}) {
      *end = {Seconds(*rc::gen::inRange(0, 12)), Bytes(*rc::gen::inRange(0, 25))};
    }
    PartitionRequest request{.pp = *rc::gen::inRange(2, 5), .vpp = *rc::gen::inRange(2, 4)};
    if (request.vpp == 2 && *rc::gen::arbitrary<bool>()) {
      request.placement = StagePlacement::kV;
    }
    request.memory = Bytes(*rc::gen::inRange(5, 60));
    put_in_flight(request);
    const auto expected = best_partition(
        layers, request, [](const PartitionScore& score) { return score.slowest_rank; });
    const auto found = partition_layers(layers, request);
    RC_ASSERT(found.has_value() == expected.has_value());
    if (found) {
      const PartitionScore score = score_of(layers, request, *found);
      RC_ASSERT(score.slowest_rank == score_of(layers, request, *expected).slowest_rank);
      RC_ASSERT(score.fullest_rank <= request.memory->value());
    }
  }));
}

// By hand, two ranks with two chunks each: five layers of 3 B between an embedding of 8 B and
// logits of 5 B, 28 B in all. In a loop rank 0 has the embedding and rank 1 the logits: 14 B are
// room for two layers beside the one and three beside the other, 13 B for one and two. In a V
// rank 0 has both: of 13 B nothing is left, and rank 1 needs 15 B for its five.
TEST(Partition, OfAnEvenModelLeavesRoomForWhatStandsAtItsEnds) {
  std::vector<LayerCost> layers(7, {Seconds(1.0), Bytes(3.0)});
  layers.front() = {Seconds(0.0), Bytes(8.0)};
  layers.back() = {Seconds(0.0), Bytes(5.0)};
  PartitionRequest request{.pp = 2, .vpp = 2, .memory = Bytes(14.0)};
  const auto looped = partition_layers(layers, request);
  ASSERT_TRUE(looped.has_value());
  EXPECT_EQ((*looped)[0] + (*looped)[2], 3);
  EXPECT_EQ((*looped)[1] + (*looped)[3], 4);
  request.memory = Bytes(13.0);
  EXPECT_EQ(partition_layers(layers, request), std::nullopt);
  request.placement = StagePlacement::kV;
  EXPECT_EQ(partition_layers(layers, request), std::nullopt);
  request.memory = Bytes(15.0);
  const auto in_a_v = partition_layers(layers, request);
  ASSERT_TRUE(in_a_v.has_value());
  EXPECT_EQ((*in_a_v)[0], 1);
  EXPECT_EQ((*in_a_v)[1] + (*in_a_v)[2], 5);
  EXPECT_EQ(least_memory(layers, request), Bytes(15.0));
}

// By hand: layer 1 keeps 4 B of each microbatch. Of the 8 B there are, 3 in flight would take 12 on
// rank 0, and 2 on rank 1 take 8. So rank 0 has layer 0 alone, whatever the times say, and layer 1
// needs rank 1 for itself.
TEST(Partition, PutsLayersThatKeepMuchWhereFewMicrobatchesAreInFlight) {
  std::vector<LayerCost> layers = layers_of({1, 1, 8, 8});
  for (LayerCost& layer : layers) {
    layer.memory = Bytes(1.0);
  }
  layers[1] = {Seconds(1.0), Bytes(0.0), Bytes(4.0)};
  PartitionRequest request{.pp = 3, .memory = Bytes(8.0), .in_flight = {3.0, 2.0, 1.0}};
  EXPECT_EQ(partition_layers(layers, request), (std::vector{1, 1, 2}));
  request.in_flight.clear();
  EXPECT_EQ(partition_layers(layers, request), (std::vector{2, 1, 1}));
}

// By hand: layer 2 fits rank 2 alone. Rank 0 could take both layers before it, but then rank 1
// would have none.
TEST(Partition, LeavesALayerToARankThatCouldDoWithout) {
  std::vector<LayerCost> layers = layers_of({1, 1, 1, 1});
  layers[2].kept = Bytes(5.0);
  EXPECT_EQ(partition_layers(layers, {.pp = 3, .memory = Bytes(5.0), .in_flight = {3.0, 2.0, 1.0}}),
            (std::vector{1, 1, 2}));
}

// A V of three ranks, by hand: 0 1 2 2 1 0.
TEST(RankOfStage, GoesRoundOrDownAndUpAgain) {
  PartitionRequest request{.pp = 3, .vpp = 2};
  for (const auto& [placement, ranks] :
       {std::pair(StagePlacement::kLooped, std::vector{0, 1, 2, 0, 1, 2}),
        std::pair(StagePlacement::kV, std::vector{0, 1, 2, 2, 1, 0})}) {
    request.placement = placement;
    for (int stage = 0; stage < 6; ++stage) {
      EXPECT_EQ(rank_of_stage(request, stage), ranks[stage]) << stage;
    }
  }
}

// Layers of 1, 2, 4, … so that a sum says which they are.
TEST(LoadsOfRanks, AreTheSumsOfTheirStages) {
  std::vector<LayerCost> layers;
  layers.reserve(7);
  for (int i = 0; i < 7; ++i) {
    layers.push_back({Seconds(1 << i), Bytes(3 << i)});
  }
  const std::vector<int> sizes = {2, 1, 3, 1};
  const auto expect_loads = [&](StagePlacement placement, int first, int second) {
    const std::vector<LayerCost> loads =
        loads_of_ranks(layers, {.pp = 2, .vpp = 2, .placement = placement}, sizes);
    EXPECT_EQ(loads, (std::vector<LayerCost>{{Seconds(first), Bytes(3.0 * first)},
                                             {Seconds(second), Bytes(3.0 * second)}}));
  };
  expect_loads(StagePlacement::kLooped, 1 + 2 + 8 + 16 + 32, 4 + 64);
  expect_loads(StagePlacement::kV, 1 + 2 + 64, 4 + 8 + 16 + 32);
}

TEST(LeastMemory, IsWhatAPartitionNeeds) {
  EXPECT_TRUE(rc::check([] {
    const std::vector<LayerCost> layers = random_layers(4);
    PartitionRequest request = random_request(2);
    request.in_flight.clear();
    request.pp = std::min(request.pp, static_cast<int>(layers.size()) / request.vpp);
    const Bytes least = least_memory(layers, request);
    request.memory = least;
    RC_ASSERT(partition_layers(layers, request).has_value());
    if (least > Bytes(0.0)) {
      request.memory = least - Bytes(1.0);
      RC_ASSERT(!partition_layers(layers, request).has_value());
    }
  }));
}

double slowest(const std::vector<LayerCost>& layers, const PartitionRequest& request) {
  return score_of(layers, request, *partition_layers(layers, request)).slowest_rank;
}

TEST(Partition, IsNeverSlowerOnMoreRanksNorFasterWithMoreToDo) {
  EXPECT_TRUE(rc::check([] {
    std::vector<LayerCost> layers = random_layers(2);
    const int pp = *rc::gen::inRange(1, static_cast<int>(layers.size()));
    RC_ASSERT(slowest(layers, {.pp = pp + 1}) <= slowest(layers, {.pp = pp}));
    const double before = slowest(layers, {.pp = pp});
    layers[*rc::gen::inRange<std::size_t>(0, layers.size())].time += Seconds(1.0);
    RC_ASSERT(slowest(layers, {.pp = pp}) >= before);
  }));
}

TEST(Partition, DoesNotExistWithMoreStagesThanLayers) {
  const std::vector<LayerCost> layers = layers_of({1, 2, 3});
  EXPECT_EQ(*partition_layers(layers, {.pp = 3}), (std::vector{1, 1, 1}));
  EXPECT_EQ(partition_layers(layers, {.pp = 4}), std::nullopt);
  EXPECT_EQ(partition_layers(layers, {.pp = 2, .vpp = 2}), std::nullopt);
}

// The sums of tenths are not equal as doubles; of layers they are.
TEST(Partition, TreatsEqualLayersAsEqual) {
  std::vector<double> times(60, 0.1);
  for (const double time : {0.1, 0.3, 1e-7, 1.0 / 3.0, 1e9}) {
    std::fill(times.begin(), times.end(), time);
    EXPECT_EQ(*partition_layers(layers_of(times), {.pp = 7}), (std::vector{8, 8, 8, 9, 9, 9, 9}));
  }
}

// One layer outweighs all others: the windows of the cuts would fill 10^8 positions.
TEST(Partition, OfAVeryLongListWithOneGiantIsStillMinimaxAndSpread) {
  std::vector<double> times(100'000, 1.0);
  times[50'000] = 1e6;
  const std::vector<LayerCost> layers = layers_of(times);
  const std::vector<int> sizes = *partition_layers(layers, {.pp = 1024});
  const PartitionScore score = score_of(layers, {.pp = 1024}, sizes);
  EXPECT_EQ(score.slowest_rank, 1e6);
  // 1023 ranks share 99999 layers: 97.75 each.
  std::vector<int> sorted = sizes;
  std::sort(sorted.begin(), sorted.end());
  EXPECT_LE(sorted[1022], 100);
}

// 64 layers of which every fourth is heavier, like a vision model's cross-attention.
TEST(Partition, SearchesListsOfUsualSizesExactly) {
  std::vector<double> times(64, 1.0);
  for (std::size_t i = 3; i < times.size(); i += 4) {
    times[i] = 1.5;
  }
  // 72 in all: 9 a rank is a lower bound, reached.
  EXPECT_EQ(slowest(layers_of(times), {.pp = 8, .vpp = 2}), 9.0);
  EXPECT_EQ(slowest(layers_of(times), {.pp = 8, .vpp = 2, .placement = StagePlacement::kV}), 9.0);
  EXPECT_EQ(slowest(layers_of(times), {.pp = 8, .vpp = 4}), 9.0);
  // 72.5: 9 a rank is too little, and there is no sum between that and 9.5.
  times[0] = 1.5;
  EXPECT_EQ(slowest(layers_of(times), {.pp = 8, .vpp = 4}), 9.5);
}

TEST(Partition, RefusesWhatItCannotSearchExactly) {
  std::vector<double> times(40);
  for (std::size_t i = 0; i < times.size(); ++i) {
    times[i] = 1.0 + 0.01 * static_cast<double>(i * i % 37);
  }
  const PartitionRequest request{.pp = 5, .vpp = 4, .most_steps = 1000};
  EXPECT_EQ(message_of([&] { return partition_layers(layers_of(times), request); }),
            "--vpp: an exact partition of 40 unlike layers into 5 times 4 stages takes too long; "
            "expected a smaller --vpp, fewer layers, or equal ones between the first and the last");
  times.resize(4000, 2.0);
  EXPECT_NE(message_of([&] { return partition_layers(layers_of(times), {.pp = 2, .vpp = 2}); }),
            "nothing was thrown");
}

// The search goes as deep as there are stages.
TEST(Partition, SearchesManyStagesWithoutFault) {
  std::vector<double> times(2048, 1.0);
  times[1000] = 2.0;
  EXPECT_EQ(slowest(layers_of(times), {.pp = 1023, .vpp = 2}), 3.0);
}

TEST(EvenPartition, GivesTheRestToTheFirst) {
  EXPECT_EQ(even_partition(10, 4), (std::vector{3, 3, 2, 2}));
  EXPECT_EQ(even_partition(8, 4), (std::vector{2, 2, 2, 2}));
  EXPECT_EQ(even_partition(2, 4), (std::vector{1, 1, 0, 0}));
  EXPECT_EQ(even_partition(5, 1), (std::vector{5}));
}

}  // namespace
}  // namespace ptdp
