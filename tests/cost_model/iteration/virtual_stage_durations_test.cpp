// Tests of the durations of virtual stages.
#include "cost_model/iteration/virtual_stage_durations.h"

#include <gtest/gtest.h>

#include "tests/cost_model/simulation/plain_pipelines.h"

namespace ptdp {
namespace {

TEST(VirtualStageDurations, AddUpToWhatTheirGpusSpend) {
  for (const NamedValue<ScheduleKind>& kind : kScheduleNames) {
    const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 64);
    ParallelConfig config = pipeline(kind.value, 4);
    config.tp = 8;
    config.recompute = Recompute::kSelective;
    const MicrobatchCosts costs = microbatch_costs(scenario, config);
    Seconds of_stages;
    for (const StageDurations& stage : virtual_stage_durations({scenario, config, &costs})) {
      of_stages += stage.forward + stage.backward;
    }
    Seconds of_gpus;
    for (int stage = 0; stage < config.pp; ++stage) {
      of_gpus += rank_costs({scenario, config, &costs}, stage).total();
    }
    EXPECT_NEAR(of_stages / of_gpus, 1.0, 1e-12) << kind.name;
  }
}

// By hand: the logits are one part of three in each pass, here 4 s; the embedding only begins.
TEST(VirtualStageDurations, HaveTheEndsOfTheModelAtItsEnds) {
  const ParallelConfig config = pipeline(ScheduleKind::kInterleaved, 2);
  MicrobatchCosts costs = costs_of(1.0, 2.0, 3.0, 4.0);
  costs.embedding.matmul = Seconds(0.75);
  costs.embedding_forward = Seconds(0.5);
  const std::vector<StageDurations> stages =
      virtual_stage_durations({scenario_of(config, 4), config, &costs});
  ASSERT_EQ(stages.size(), 4U);
  for (const auto& [stage, forward, input, weight] :
       {std::tuple(0, 1.5, 2.25, 3.0), std::tuple(1, 1.0, 2.0, 3.0), std::tuple(2, 1.0, 2.0, 3.0),
        std::tuple(3, 5.0, 6.0, 7.0)}) {
    EXPECT_DOUBLE_EQ(stages[stage].forward.value(), forward) << stage;
    EXPECT_DOUBLE_EQ(stages[stage].input_gradient.value(), input) << stage;
    EXPECT_DOUBLE_EQ(stages[stage].weight_gradient.value(), weight) << stage;
    EXPECT_DOUBLE_EQ(stages[stage].backward.value(), input + weight) << stage;
  }
}

}  // namespace
}  // namespace ptdp
