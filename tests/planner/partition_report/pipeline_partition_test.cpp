// Tests of partitions of a list or a model, and of their report.
#include "planner/partition_report/pipeline_partition.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cost_model/iteration/iteration.h"
#include "cost_model/memory/memory.h"
#include "planner/partition_report/partition_output.h"
#include "tests/support/scenarios.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using Sizes = std::vector<int>;

/// Returns an embedding of 1 s, six layers of 2 s and 3 GiB each, and logits of 3 s: 16 s in all.
LayerList small_list() {
  return {.name = "small",
          .embedding = ListedLayer{.name = "in", .time = Seconds(1.0), .memory = gibibytes(1.0)},
          .layers = {{.name = "block", .time = Seconds(2.0), .memory = gibibytes(3.0), .count = 6}},
          .logits = ListedLayer{.name = "out", .time = Seconds(3.0)}};
}

// By hand: 16 s over 3 ranks is 5.3; with halves of nothing 6 is next: not 1 + 6, 2·2, 1·2 + 3.
TEST(PartitionList, SaysWhatEachStageHolds) {
  const PipelinePartition partition = partition_list(small_list(), {.pp = 3}, 10);
  EXPECT_EQ(partition.layers_per_stage(), (Sizes{2, 3, 1}));
  EXPECT_EQ(partition.stages[0].layers, "in, 2 x block");
  EXPECT_EQ(partition.stages[2].layers, "block, out");
  EXPECT_EQ(partition.stages[0].time, Seconds(5.0));
  EXPECT_EQ(partition.ranks[0].memory, gibibytes(7.0));
  EXPECT_EQ(slowest_rank(partition.ranks), 1);
}

// By hand: even are 5, 4 and 7 s. Ten microbatches and two thirds of 16 s to fill.
TEST(PartitionList, GainsOverTheEvenSplit) {
  const PipelinePartition partition = partition_list(small_list(), {.pp = 3}, 10);
  ASSERT_TRUE(partition.even.has_value());
  EXPECT_EQ(partition.even->layers_per_stage, (Sizes{2, 2, 2}));
  EXPECT_EQ(slowest_rank(partition.even->ranks), 2);
  EXPECT_NEAR(pipeline_time(partition, partition.ranks).value(), 60.0 + 2.0 * 16.0 / 3.0, 1e-9);
  EXPECT_NEAR(pipeline_time(partition, partition.even->ranks).value(), 70.0 + 2.0 * 16.0 / 3.0,
              1e-9);
}

TEST(PartitionList, HasNoEvenSplitWithFewerLayersThanStages) {
  const PipelinePartition partition = partition_list(small_list(), {.pp = 8}, 10);
  EXPECT_EQ(partition.layers_per_stage(), (Sizes{0, 1, 1, 1, 1, 1, 1, 0}));
  EXPECT_EQ(partition.stages[7].layers, "out");
  EXPECT_FALSE(partition.even.has_value());
  EXPECT_NE(to_text(partition).find("no even split"), std::string::npos);
}

TEST(PartitionList, OfMoreStagesThanLayersFitsNowhere) {
  EXPECT_EQ(message_of([] { return partition_list(small_list(), {.pp = 3, .vpp = 3}, 1); },
                       ExitStatus::kNothingFits),
            "nothing fits: 6 layers, with embedding and logits counted as stages of their own, "
            "cannot fill pp * vpp = 3 * 3 = 9 stages; the most are 8");
  LayerList bare = small_list();
  bare.embedding.reset();
  bare.logits.reset();
  EXPECT_EQ(
      message_of([&] { return partition_list(bare, {.pp = 7}, 1); }, ExitStatus::kNothingFits),
      "nothing fits: 6 layers cannot fill pp * vpp = 7 * 1 = 7 stages; the most are 6");
}

// Seven stages out of six layers would be a riddle.
TEST(PartitionList, SaysWhyTheMostStagesAreMoreThanTheLayersWithOneEndToo) {
  LayerList begun = small_list();
  begun.logits.reset();
  LayerList ended = small_list();
  ended.embedding.reset();
  for (const LayerList& list : {begun, ended}) {
    const std::string message =
        message_of([&] { return partition_list(list, {.pp = 8}, 1); }, ExitStatus::kNothingFits);
    EXPECT_NE(message.find("nothing fits: 6 layers, "), std::string::npos) << message;
    EXPECT_NE(message.find("counted as stages of their own"), std::string::npos) << message;
    EXPECT_NE(message.find("; the most are 7"), std::string::npos) << message;
  }
}

// 19 GiB in all; three ranks of two layers, one with the embedding: 7 GiB.
TEST(PartitionList, ThatNeedsMoreMemorySaysHowMuch) {
  EXPECT_EQ(partition_list(small_list(), {.pp = 3, .memory = gibibytes(7.0)}, 1).layers_per_stage(),
            (Sizes{2, 2, 2}));
  EXPECT_EQ(message_of(
                [] { return partition_list(small_list(), {.pp = 3, .memory = gibibytes(6.5)}, 1); },
                ExitStatus::kNothingFits),
            "nothing fits: 3 stages of layers, however cut, need at least 7.00 GiB on the fullest "
            "GPU, 0.50 GiB more than the 6.50 GiB there are");
}

// Two chunks on each of two ranks, in four stages: three layers each, one rank with the embedding.
TEST(PartitionList, OfChunksThatNeedsMoreMemoryCountsThemAll) {
  EXPECT_EQ(message_of(
                [] {
                  return partition_list(small_list(), {.pp = 2, .vpp = 2, .memory = gibibytes(9.5)},
                                        1);
                },
                ExitStatus::kNothingFits),
            "nothing fits: 4 stages of layers, however cut, need at least 10.00 GiB on the "
            "fullest GPU, 0.50 GiB more than the 9.50 GiB there are");
}

Scenario gpt3(std::int64_t batch) {
  return selene_2021("gpt3-175b", batch);
}

// The closed form's own slowest stage and memory, of the configuration with these layers.
TEST(PartitionModel, AgreesWithTheCostModel) {
  const Scenario scenario = gpt3(64);
  ParallelConfig config{.tp = 8, .pp = 7, .recompute = Recompute::kFull};
  const PipelinePartition partition = partition_model(scenario, config, gibibytes(80.0));
  config.layers_per_stage = partition.layers_per_stage();
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const PipelineCosts pipeline = pipeline_costs({scenario, config, &costs});
  EXPECT_NEAR(partition.ranks[slowest_rank(partition.ranks)].time / pipeline.slowest.total(), 1.0,
              1e-12);
  EXPECT_NEAR(pipeline_time(partition, partition.ranks).value(),
              (64.0 * pipeline.slowest.total() + 6.0 * pipeline.mean).value(), 1e-9);
  for (int rank = 0; rank < config.pp; ++rank) {
    EXPECT_EQ(partition.ranks[rank].memory, rank_memory({scenario, config}, rank).total());
  }
}

TEST(PartitionModel, TakesAnyNumberOfLayersAndStages) {
  const Scenario scenario = gpt3(1);
  for (int pp = 1; pp <= 98; ++pp) {
    const ParallelConfig config{.tp = 8, .pp = pp};
    const Sizes layers = partition_model(scenario, config, gibibytes(1e6)).layers_per_stage();
    EXPECT_EQ(std::accumulate(layers.begin(), layers.end(), 0), 96) << pp;
  }
}

// The first stages of 1F1B hold most microbatches: with little memory they get fewer layers.
TEST(PartitionModel, MovesLayersToWhereThereIsMemory) {
  const Scenario scenario = gpt3(64);
  const ParallelConfig config{.tp = 8, .pp = 8, .recompute = Recompute::kSelective};
  const auto at = [&](double gib) { return partition_model(scenario, config, gibibytes(gib)); };
  const PipelinePartition ample = at(1e4);
  const auto fullest =
      std::max_element(ample.ranks.begin(), ample.ranks.end(),
                       [](const LayerCost& a, const LayerCost& b) { return a.memory < b.memory; });
  const double tight = fullest->memory.value() / kGibi - 0.1;
  const PipelinePartition moved = at(tight);
  EXPECT_LT(moved.layers_per_stage()[0], ample.layers_per_stage()[0]);
  for (const LayerCost& rank : moved.ranks) {
    EXPECT_LE(rank.memory, gibibytes(tight));
  }
  EXPECT_EQ(message_of([&] { return at(20.0); }, ExitStatus::kNothingFits).substr(0, 32),
            "nothing fits: 8 stages of layers");
}

// Ranks of 16 s in all, of which the embedding and the logits add up to 4 with blocks of 2: with
// two chunks each none can have less than 9 s if the ends lie on different ranks. In a V rank 0 has
// both ends and may have 8. One rank of two waits for half a chunk's share of 16/2 s.
TEST(PartitionList, FillsAPipelineOfChunksInLessTime) {
  const PipelinePartition looped = partition_list(small_list(), {.pp = 2, .vpp = 2}, 10);
  EXPECT_EQ(looped.ranks[slowest_rank(looped.ranks)].time, Seconds(9.0));
  EXPECT_NEAR(pipeline_time(looped, looped.ranks).value(), 10.0 * 9.0 + 0.5 * 8.0, 1e-9);
  const PipelinePartition v =
      partition_list(small_list(), {.pp = 2, .vpp = 2, .placement = StagePlacement::kV}, 10);
  EXPECT_EQ(v.ranks[slowest_rank(v.ranks)].time, Seconds(8.0));
  EXPECT_EQ(v.stages[3].rank, 0);
  EXPECT_EQ(looped.stages[3].rank, 1);
  const auto headline = [](const PipelinePartition& partition) {
    const std::string text = to_text(partition);
    return text.substr(0, text.find('\n'));
  };
  EXPECT_EQ(headline(looped), "small: pp=2 vpp=2");
  EXPECT_EQ(headline(v), "small: pp=2 vpp=2 in a V");
  EXPECT_EQ(nlohmann::json::parse(to_json(looped))["placement"], "looped");
  EXPECT_EQ(nlohmann::json::parse(to_json(v))["placement"], "v");
}

// Stages of 5, 6 and 5 s and 7, 9 and 3 GiB; evenly cut 5, 4 and 7 s and 7, 6 and 6 GiB. Ten
// microbatches take 60 and 70 s and 2 / 3 of 16 s besides: 14.15 % more.
TEST(PartitionReport, HoldsTimesAndMemoryOfEveryStageAndRank) {
  PipelinePartition partition = partition_list(small_list(), {.pp = 3}, 10);
  const nlohmann::json json = nlohmann::json::parse(to_json(partition));
  EXPECT_EQ(json["num_microbatches"], 10);
  EXPECT_EQ(json["layers_per_stage"], (nlohmann::json{2, 3, 1}));
  EXPECT_EQ(
      json["stages"][2],
      (nlohmann::json{{"rank", 2}, {"num_layers", 1}, {"holds", "block, out"}, {"time_s", 5.0}}));
  EXPECT_EQ(json["ranks"][1], (nlohmann::json{{"time_s", 6.0}, {"memory_GiB", 9.0}}));
  EXPECT_EQ(json["slowest_rank"], 1);
  EXPECT_EQ(json["slowest_s"], 6.0);
  EXPECT_NEAR(json["pipeline_s"], 60.0 + 32.0 / 3.0, 1e-9);
  EXPECT_EQ(json["even"]["layers_per_stage"], (nlohmann::json{2, 2, 2}));
  EXPECT_EQ(json["even"]["fits"], true);
  EXPECT_EQ(json["even"]["slowest_s"], 7.0);
  EXPECT_NEAR(json["even"]["pipeline_s"], 70.0 + 32.0 / 3.0, 1e-9);
  EXPECT_NEAR(json["slowest_gain_pct"], 100.0 / 6.0, 1e-9);
  EXPECT_NEAR(json["pipeline_gain_pct"], 100.0 * 10.0 / (60.0 + 32.0 / 3.0), 1e-9);
  EXPECT_FALSE(json.contains("memory_GiB"));
  const std::string text = to_text(partition);
  EXPECT_NE(text.find("     1      1       3         6000  3 x block\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("     2      2       1         5000  block, out\n\n"), std::string::npos);
  EXPECT_NE(text.find("     1         6000            9  1  (slowest)\n"), std::string::npos);
  EXPECT_NE(text.find("     2         5000            3  2\n\n"), std::string::npos);
  EXPECT_NE(text.find("slowest rank ms                      6000           7000    16.67%\n"),
            std::string::npos);
  EXPECT_NE(text.find("10 microbatches ms                70666.7        80666.7    14.15%\n"),
            std::string::npos);
  EXPECT_EQ(text.find("does not fit"), std::string::npos);
  EXPECT_EQ(to_csv(partition),
            "stage,rank,num_layers,time_s,rank_time_s,rank_memory_GiB\n"
            "0,0,2,5,5,7\n1,1,3,6,6,9\n2,2,1,5,5,3\n");
  // What nobody gave a size has none.
  partition.has_memory = false;
  EXPECT_NE(to_csv(partition).find("\n1,1,3,6,6,\n"), std::string::npos);
  EXPECT_FALSE(nlohmann::json::parse(to_json(partition))["ranks"][1].contains("memory_GiB"));
  EXPECT_NE(to_text(partition).find("     1         6000            -  1  (slowest)\n"),
            std::string::npos);
  // 6.5 GiB for each rank would not hold the even split's 7, and 7 would.
  partition.request.memory = gibibytes(6.5);
  EXPECT_NE(to_text(partition).find("the even split does not fit: 7 GiB on its fullest GPU\n"),
            std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(partition))["even"]["fits"], false);
  partition.request.memory = gibibytes(7.0);
  EXPECT_EQ(to_text(partition).find("does not fit"), std::string::npos);
  EXPECT_EQ(nlohmann::json::parse(to_json(partition))["memory_GiB"], 7.0);
}

}  // namespace
}  // namespace ptdp
