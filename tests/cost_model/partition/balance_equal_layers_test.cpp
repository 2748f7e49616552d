// Tests of layer counts that balance embedding and logits.
#include "cost_model/partition/balance_equal_layers.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/cost_model/partition/partitions.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using Sizes = std::vector<int>;

/// Returns the transformer as a list: embedding, layers, logits.
std::vector<LayerCost> listed(const TransformerTimes& times) {
  std::vector<LayerCost> layers(static_cast<std::size_t>(times.num_layers) + 2,
                                {.time = times.layer});
  layers.front().time = times.embedding;
  layers.back().time = times.logits;
  return layers;
}

/// Returns the sizes with embedding and logits counted as layers.
Sizes with_ends(Sizes sizes) {
  ++sizes.front();
  ++sizes.back();
  return sizes;
}

// By hand: 7 layers of 2 s; 3 s of extra on the first of four: levels 3 + 2a and 2b; a = 1 and
// b = 2 give 5 and 4.
TEST(SpreadLayers, FillsUpFromTheLeastLoaded) {
  const std::vector<LayerBin> bins = {{.extra = Seconds(3.0)}, {.count = 3}};
  EXPECT_EQ(*balance_equal_layers(7, Seconds(2.0), bins), (Sizes{1, 2, 2, 2}));
  EXPECT_EQ(*balance_equal_layers(8, Seconds(2.0), bins), (Sizes{1, 2, 2, 3}));
  EXPECT_EQ(*balance_equal_layers(0, Seconds(2.0), bins), (Sizes{0, 0, 0, 0}));
}

TEST(SpreadLayers, KeepsToTheBoundsOrSaysThatItCannot) {
  const std::vector<LayerBin> bins = {{.extra = Seconds(9.0), .least = 2}, {.count = 2, .most = 3}};
  EXPECT_EQ(*balance_equal_layers(5, Seconds(1.0), bins), (Sizes{2, 1, 2}));
  EXPECT_EQ(*balance_equal_layers(10, Seconds(1.0), bins), (Sizes{4, 3, 3}));
  EXPECT_EQ(balance_equal_layers(1, Seconds(1.0), bins), std::nullopt);
  EXPECT_EQ(balance_equal_layers(7, Seconds(1.0), std::vector<LayerBin>{{.count = 2, .most = 3}}),
            std::nullopt);
  EXPECT_EQ(balance_equal_layers(1, Seconds(1.0), std::vector<LayerBin>{{.least = 2, .most = 1}}),
            std::nullopt);
}

// The ends outweigh a layer so far that adding one to them leaves no trace.
TEST(SpreadLayers, EndsWhereTheEndsOutweighALayer) {
  const std::vector<LayerBin> bins = {{.extra = Seconds(1e9)}, {.count = 2}};
  EXPECT_EQ(*balance_equal_layers(10, Seconds(1e-9), bins), (Sizes{0, 5, 5}));
}

TransformerTimes random_transformer(int most_layers) {
  return {.num_layers = *rc::gen::inRange(1, most_layers + 1),
          .layer = Seconds(*rc::gen::inRange(1, 10)),
          .embedding = Seconds(*rc::gen::inRange(0, 12)),
          .logits = Seconds(*rc::gen::inRange(0, 40))};
}

TEST(BalancedLayers, EqualBruteForce) {
  EXPECT_TRUE(rc::check([] {
    const TransformerTimes times = random_transformer(10);
    const std::vector<LayerCost> layers = listed(times);
    PartitionRequest request{.pp = *rc::gen::inRange(1, 5), .vpp = *rc::gen::inRange(1, 4)};
    if (request.vpp == 2 && *rc::gen::arbitrary<bool>()) {
      request.placement = StagePlacement::kV;
    }
    const auto key = [](const PartitionScore& score) {
      return std::tuple(score.slowest_rank, score.sum_of_squares);
    };
    const auto expected = best_partition(layers, request, key);
    const auto found = balanced_layers(times, request.pp, request.vpp, request.placement);
    RC_ASSERT(found.has_value() == expected.has_value());
    if (found) {
      RC_ASSERT(key(score_of(layers, request, with_ends(*found))) ==
                key(score_of(layers, request, *expected)));
    }
  }));
}

// What a search may rely on for every candidate, at the sizes of real models.
TEST(BalancedLayers, EqualTheGeneralMethodOnOneStagePerRank) {
  EXPECT_TRUE(rc::check([] {
    const TransformerTimes times = random_transformer(200);
    const int pp = *rc::gen::inRange(2, 65);
    const auto found = balanced_layers(times, pp, 1);
    const auto expected = partition_layers(listed(times), {.pp = pp});
    RC_ASSERT(found.has_value() == expected.has_value());
    if (found) {
      RC_ASSERT(with_ends(*found) == *expected);
    }
  }));
}

// Chunks of a rank differ by a layer at most where no end is among them.
TEST(BalancedLayers, AreEvenWithinARank) {
  const TransformerTimes times{.num_layers = 39, .layer = Seconds(1.0), .logits = Seconds(2.0)};
  // 41 s over 4 ranks: 11 on one, 10 on the others; the last has its logits besides 8 or 9 layers.
  const Sizes sizes = *balanced_layers(times, 4, 3);
  EXPECT_EQ(sizes, (Sizes{3, 3, 3, 3, 3, 3, 3, 4, 4, 4, 4, 2}));
}

TEST(BalancedLayers, OfASingleRankHoldAll) {
  const TransformerTimes times{.num_layers = 5, .layer = Seconds(1.0), .logits = Seconds(2.0)};
  EXPECT_EQ(*balanced_layers(times, 1, 1), (Sizes{5}));
  EXPECT_EQ(*balanced_layers(times, 1, 2), (Sizes{3, 2}));
}

// 2 + 3 stages: two may be left to embedding and logits, the middle ones may not.
TEST(BalancedLayers, LeaveOnlyTheEndsWithoutALayer) {
  const TransformerTimes times{
      .num_layers = 3, .layer = Seconds(1.0), .embedding = Seconds(5.0), .logits = Seconds(5.0)};
  EXPECT_EQ(*balanced_layers(times, 5, 1), (Sizes{0, 1, 1, 1, 0}));
  EXPECT_EQ(balanced_layers(times, 6, 1), std::nullopt);
}

TEST(BalancedLayers, KeepToTheLimitsOfTheRanks) {
  const TransformerTimes times{.num_layers = 8, .layer = Seconds(1.0)};
  const Sizes most = {1, 3, 9, 9};
  EXPECT_EQ(*balanced_layers(times, 4, 1, StagePlacement::kLooped, most), (Sizes{1, 2, 2, 3}));
}

// GPT-3's logits take as long as a layer and a half or so on Selene; whatever they take, no other
// split of the 96 layers has a faster slowest stage.
TEST(BalancedLayers, OfAModelHaveTheFastestSlowestStage) {
  const Scenario scenario = selene_2021("gpt3-175b");
  ParallelConfig config{.tp = 8, .pp = 7, .dp = 1};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const Sizes sizes = *balanced_layers({scenario, config, &costs});
  const auto slowest = [&](const Sizes& layers) {
    config.layers_per_stage = layers;
    return pipeline_costs({scenario, config, &costs}).slowest.total();
  };
  const Seconds least = slowest(sizes);
  for (int from = 0; from < 7; ++from) {
    for (int to = 0; to < 7; ++to) {
      Sizes moved = sizes;
      --moved[from];
      ++moved[to];
      EXPECT_GE(slowest(moved), least) << from << " to " << to;
    }
  }
  EXPECT_LT(least, slowest(even_partition(96, 7)));
}

/// Returns the longest stage of the best split of `times` into stages of one layer or more.
Seconds least_longest_of(const std::vector<Seconds>& times, int num_stages) {
  constexpr Seconds none(std::numeric_limits<double>::infinity());
  // By the first so many layers: in as many stages as were looked at.
  std::vector<Seconds> least(times.size() + 1, none);
  least.front() = Seconds(0.0);
  for (int stage = 0; stage < num_stages; ++stage) {
    std::vector<Seconds> with_one_more(times.size() + 1, none);
    for (std::size_t begin = 0; begin < times.size(); ++begin) {
      Seconds sum;
      for (std::size_t end = begin; end < times.size(); ++end) {
        sum += times[end];
        with_one_more[end + 1] = std::min(with_one_more[end + 1], std::max(least[begin], sum));
      }
    }
    least = with_one_more;
  }
  return least.back();
}

// Dense layers, then layers with experts, all of them or every so many-th, and a window from some
// layer on.
TEST(BalancedLayers, OfUnlikeKindsHaveTheFastestSlowestStage) {
  EXPECT_TRUE(rc::check([] {
    Scenario scenario = selene_2021("gpt3-175b");
    TransformerConfig& model = scenario.job.model;
    model.num_layers = *rc::gen::inRange(2, 24);
    model.num_experts = 4;
    model.window_size = 64;
    model.first_dense_layers = *rc::gen::inRange(1, model.num_layers);
    model.moe_layer_freq = *rc::gen::inRange(1, 4);
    model.first_window_layer = *rc::gen::inRange(0, model.num_layers);
    const auto some_time = [] { return Seconds(*rc::gen::inRange(1, 40) / 8.1); };
    MicrobatchCosts costs;
    for (LayerCosts& layer : costs.layers) {
      layer.forward.matmul = some_time();
    }
    costs.embedding.matmul = some_time();
    costs.logits.matmul = some_time();
    const ParallelConfig config{.pp = *rc::gen::inRange(1, model.num_layers + 3)};
    std::vector<Seconds> times = {costs.embedding.matmul};
    for (int layer = 0; layer < model.num_layers; ++layer) {
      times.push_back(costs.layers[index_of(kind_of_layer(model, layer))].forward.matmul);
    }
    times.push_back(costs.logits.matmul);
    const Sizes sizes = with_ends(*balanced_layers({scenario, config, &costs}));
    RC_ASSERT(std::ssize(sizes) == config.pp);
    Seconds longest;
    auto layer = times.begin();
    for (const int size : sizes) {
      longest = std::max(longest, std::reduce(layer, layer + size, Seconds(0.0)));
      layer += size;
    }
    RC_ASSERT(layer == times.end());
    RC_ASSERT(longest <= least_longest_of(times, config.pp) * (1.0 + 1e-11));
  }));
}

}  // namespace
}  // namespace ptdp
