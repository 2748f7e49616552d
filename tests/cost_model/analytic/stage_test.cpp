#include "cost_model/analytic/stage.h"

#include <gtest/gtest.h>

#include "tests/cost_model/scenarios.h"

namespace ptdp {
namespace {

// Megatron-LM: 51200 is a multiple of 128·8, not of 128·32; GPT-2's 50257 becomes 50304.
TEST(PaddedVocabSize, IsAMultipleOf128PerTensorParallelRank) {
  EXPECT_EQ(padded_vocab_size(find_model("1T").config, 8), 51200);
  EXPECT_EQ(padded_vocab_size(find_model("1T").config, 32), 53248);
  EXPECT_EQ(padded_vocab_size(find_model("gpt2-124m").config, 1), 50304);
}

TEST(StageCosts, OfOneStageHoldEverything) {
  const Scenario scenario = selene_2021("1.7B");
  const ParallelConfig config{.dp = 32, .micro_batch_size = 16};
  const MicrobatchCosts costs = microbatch_costs(scenario, config);
  const StageCosts stage = stage_costs(scenario, config, costs);
  EXPECT_EQ(stage.slowest(1), stage.mean(1));
  EXPECT_NEAR(stage.slowest(1).value(),
              (24.0 * (costs.layer.forward.total() + costs.layer.backward.total()) +
               costs.embedding.total() + costs.logits.total() + scenario.stack.microbatch_overhead)
                  .value(),
              1e-9);
}

TEST(StageCosts, AreHeaviestOnTheLastStage) {
  const Scenario scenario = selene_2021("145B");
  const ParallelConfig config{.tp = 8, .pp = 8, .dp = 24, .recompute = Recompute::kFull};
  const StageCosts stage = stage_costs(scenario, config, microbatch_costs(scenario, config));
  EXPECT_EQ(stage.slowest(8), stage.middle() + stage.logits.total());
  EXPECT_LT(stage.mean(8), stage.slowest(8));
  EXPECT_GT(stage.mean(8), stage.middle());
}

TEST(StageCosts, PayTheOverheadOfAMicrobatchForEachChunk) {
  const Scenario scenario = selene_2021("145B");
  const auto overhead = [&](int vpp) {
    const ParallelConfig config{.tp = 8, .pp = 8, .dp = 24, .vpp = vpp};
    return stage_costs(scenario, config, microbatch_costs(scenario, config)).overhead;
  };
  EXPECT_EQ(overhead(1), scenario.stack.microbatch_overhead);
  EXPECT_EQ(overhead(5), 5.0 * scenario.stack.microbatch_overhead);
}

// By hand: the tied embedding of 51200 rows is used twice; 6 bytes per weight at 0.7 · 2039 GB/s,
// plus that of 24 layers of 12h².
TEST(StageCosts, AccumulateTheGradientsOfBothUsesOfTheEmbedding) {
  const Scenario scenario = selene_2021("1.7B");
  const StageCosts stage = stage_costs(scenario, {}, microbatch_costs(scenario, {}));
  const double weights = 2.0 * 51200 * 2304 + 24.0 * 12 * 2304 * 2304;
  EXPECT_NEAR(stage.gradient_accumulation.value(), weights * 6 / (0.7 * 2039e9), 1e-9);
}

}  // namespace
}  // namespace ptdp
