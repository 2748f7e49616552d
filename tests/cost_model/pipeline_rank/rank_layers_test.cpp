// Tests of which layers and ends of the model a stage holds.
#include "cost_model/pipeline_rank/rank_layers.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "tests/cost_model/plain_scenario.h"

namespace ptdp {
namespace {

std::vector<int> held_stages(StagePlacement placement, int pp, int vpp, int rank) {
  std::vector<int> held;
  for_each_virtual_stage(placement, pp, vpp, rank, [&](int each) { held.push_back(each); });
  return held;
}

TEST(VirtualStages, AreHeldByThePlacement) {
  EXPECT_EQ(held_stages(StagePlacement::kLooped, 3, 2, 1), (std::vector{1, 4}));
  EXPECT_EQ(held_stages(StagePlacement::kLooped, 3, 1, 2), (std::vector{2}));
  EXPECT_EQ(held_stages(StagePlacement::kV, 3, 2, 0), (std::vector{0, 5}));
  EXPECT_EQ(held_stages(StagePlacement::kV, 3, 2, 2), (std::vector{2, 3}));
  EXPECT_EQ(held_stages(StagePlacement::kBidirectional, 4, 1, 1), (std::vector{1, 2}));
}

// By hand, three or four places: where the embedding is, and where the logits.
TEST(EndsOfTheModel, AreWhereThePlacementPutsThem) {
  const auto places = [](const ParallelConfig& config) {
    std::vector<std::pair<bool, bool>> ends;
    ends.reserve(static_cast<std::size_t>(config.pp));
    for (int rank = 0; rank < config.pp; ++rank) {
      ends.emplace_back(holds_embedding(config, rank), holds_logits(config, rank));
    }
    return ends;
  };
  using Ends = std::vector<std::pair<bool, bool>>;
  EXPECT_EQ(places({.pp = 3}), (Ends{{true, false}, {false, false}, {false, true}}));
  EXPECT_EQ(places({.pp = 3, .vpp = 2, .schedule = ScheduleKind::kZbV}),
            (Ends{{true, true}, {false, false}, {false, false}}));
  EXPECT_EQ(places({.pp = 4, .schedule = ScheduleKind::kDualPipe}),
            (Ends{{true, true}, {false, false}, {false, false}, {true, true}}));
  EXPECT_EQ(places({}), (Ends{{true, true}}));
  EXPECT_EQ(num_copies({.pp = 4, .schedule = ScheduleKind::kDualPipe}), 2);
  EXPECT_EQ(num_copies({.pp = 4, .vpp = 2, .schedule = ScheduleKind::kDualPipeV}), 1);
}

// Once for logits; of each module for its logits and for its tokens.
TEST(UsesAtTheEnd, AreOfTheLogitsAndOfWhatPredictsMore) {
  TransformerConfig model;
  EXPECT_EQ(uses_at_the_end(model), 1.0);
  model.mtp_num_layers = 2;
  EXPECT_EQ(uses_at_the_end(model), 5.0);
}

TEST(LayerRange, IsEvenOrAsGiven) {
  TransformerConfig model;
  model.num_layers = 12;
  const ParallelConfig even{.pp = 2, .vpp = 2};
  EXPECT_EQ(layer_range(model, even, 0), std::pair(0, 3));
  EXPECT_EQ(layer_range(model, even, 3), std::pair(9, 12));
  EXPECT_EQ(longest_layer_range(model, even), 3);
  const ParallelConfig given{.pp = 2, .vpp = 2, .layers_per_stage = {2, 5, 0, 5}};
  const std::vector<std::pair<int, int>> ranges = {{0, 2}, {2, 7}, {7, 7}, {7, 12}};
  for (int rank = 0; rank < 4; ++rank) {
    EXPECT_EQ(layer_range(model, given, rank), ranges[rank]) << rank;
  }
  EXPECT_EQ(longest_layer_range(model, given), 5);
}

// All at once or one by one, of models of one kind and of two, with modules behind.
TEST(LayersOfRanks, AreThoseOfEachStage) {
  for (const int first_dense : {0, 3}) {
    for (const int modules : {0, 2}) {
      TransformerConfig model = small_latent_model();
      model.num_layers = 8;
      model.first_dense_layers = first_dense;
      model.mtp_num_layers = modules;
      for (const ParallelConfig& config :
           {ParallelConfig{.pp = 4}, ParallelConfig{.pp = 2, .vpp = 2},
            ParallelConfig{.pp = 2, .vpp = 2, .schedule = ScheduleKind::kZbV},
            ParallelConfig{.pp = 4, .schedule = ScheduleKind::kDualPipe},
            ParallelConfig{.pp = 4, .layers_per_stage = {1, 4, 2, 1}}}) {
        const LayersOfRanks layers(model, config);
        const double copies = config.schedule == ScheduleKind::kDualPipe ? 2.0 : 1.0;
        LayerCounts all{};
        for (int rank = 0; rank < config.pp; ++rank) {
          EXPECT_EQ(layers.of_rank(rank), layers_of_rank(model, config, rank));
          all += layers.of_rank(rank);
        }
        LayerCounts chunks{};
        for (int rank = 0; rank < config.pp * config.vpp; ++rank) {
          EXPECT_EQ(layers.of_virtual_stage(rank), layers_of_virtual_stage(model, config, rank));
          chunks += layers.of_virtual_stage(rank);
        }
        EXPECT_EQ(chunks, layers_of_model(model));
        EXPECT_EQ(total(all), copies * (8.0 + modules)) << to_string(config);
        EXPECT_EQ(total(chunks), 8.0 + modules);
      }
    }
  }
}

// If stages are alike only the ends can be heaviest.
TEST(StageStep, SkipsWhatIsAlike) {
  const TransformerConfig alike = small_expert_model();
  const TransformerConfig unlike = small_latent_model();
  EXPECT_EQ(rank_step(alike, {.pp = 4}), 3);
  EXPECT_EQ(rank_step(alike, {}), 1);
  EXPECT_EQ(rank_step(alike, {.pp = 4, .layers_per_stage = {1, 1, 1, 1}}), 1);
  EXPECT_EQ(rank_step(unlike, {.pp = 4}), 1);
}

}  // namespace
}  // namespace ptdp
