// Tests of the kinds of layers that a model has, and of their order.
#include "cost_model/inputs/layer_kinds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace ptdp {
namespace {

/// Returns a model with random patterns of experts and windows, some of them beyond its layers.
TransformerConfig random_pattern(std::mt19937& random) {
  const auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  TransformerConfig model;
  model.num_layers = 1 + below(12);
  model.seq_length = 64;
  model.window_size = 16 * below(6);  // 0 and 64 and above: none
  model.first_window_layer = below(14);
  model.num_experts = 8 * below(2);
  if (model.num_experts > 0) {
    model.first_dense_layers = below(model.num_layers);
    model.moe_layer_freq = 1 + below(4);
  }
  return model;
}

/// Returns a layer's kind, worked out from the descriptions of the fields.
LayerKind described_kind(const TransformerConfig& model, int layer) {
  const bool is_windowed = model.window_size > 0 && model.window_size < model.seq_length &&
                           layer >= model.first_window_layer;
  const int after_dense = layer - model.first_dense_layers;
  const bool is_expert =
      model.num_experts > 0 && after_dense >= 0 && after_dense % model.moe_layer_freq == 0;
  return {.has_experts = is_expert, .has_window = is_windowed};
}

TEST(LayerKinds, AreListedByTheirIndex) {
  for (std::size_t i = 0; i < kLayerKinds.size(); ++i) {
    EXPECT_EQ(index_of(kLayerKinds[i]), i);
  }
}

TEST(LayerKinds, ComeInRuns) {
  std::mt19937 random(2);
  for (int round = 0; round < 500; ++round) {
    const TransformerConfig model = random_pattern(random);
    for (int layer = 0; layer < model.num_layers; ++layer) {
      int end = layer + 1;
      while (end < model.num_layers && described_kind(model, end) == described_kind(model, layer)) {
        ++end;
      }
      EXPECT_EQ(end_of_run(model, layer), end) << "from " << layer << " in round " << round;
    }
  }
}

TEST(LayerKinds, AreCountedAsOneByOne) {
  std::mt19937 random(1);
  std::set<std::size_t> seen;
  for (int round = 0; round < 500; ++round) {
    const TransformerConfig model = random_pattern(random);
    std::set<std::size_t> kinds;
    for (int begin = 0; begin <= model.num_layers; ++begin) {
      LayerCounts expected{};
      for (int end = begin; end <= model.num_layers; ++end) {
        EXPECT_EQ(count_layers(model, begin, end), expected)
            << begin << " to " << end << " in round " << round;
        EXPECT_EQ(total(count_layers(model, begin, end)), end - begin);
        if (end < model.num_layers) {
          EXPECT_EQ(kind_of_layer(model, end), described_kind(model, end));
          const std::size_t kind = index_of(described_kind(model, end));
          expected[kind] += 1.0;
          kinds.insert(kind);
        }
      }
    }
    EXPECT_EQ(has_one_kind(model), kinds.size() == 1) << "round " << round;
    if (kinds.size() == 1) {
      EXPECT_EQ(of_one_kind(model, 2.5)[*kinds.begin()], 2.5);
    }
    seen.merge(kinds);
  }
  EXPECT_EQ(seen.size(), kLayerKinds.size());
}

// Layers 0 … 2 of DeepSeek-V3's 61 are dense.
TEST(LayerKinds, OfDeepSeekV3) {
  const TransformerConfig model{
      .num_layers = 61, .seq_length = 4096, .num_experts = 256, .first_dense_layers = 3};
  EXPECT_FALSE(has_one_kind(model));
  EXPECT_EQ(count_layers(model, 0, 61), (LayerCounts{3.0, 58.0, 0.0, 0.0}));
  EXPECT_EQ(count_layers(model, 2, 4) * 2.0, (LayerCounts{2.0, 2.0, 0.0, 0.0}));
}

}  // namespace
}  // namespace ptdp
