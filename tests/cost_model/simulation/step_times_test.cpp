// Tests of the durations that a simulated step rests on.
#include "cost_model/simulation/step_times.h"

#include <gtest/gtest.h>

#include <array>
#include <vector>

namespace ptdp {
namespace {

TEST(StageDurations, HaveWholeBackwardPassesAsLongAsTheirHalves) {
  const StageDurations stage =
      stage_durations(Seconds(1.0), Seconds(2.0), Seconds(4.0), Seconds(8.0));
  EXPECT_EQ(stage.forward, Seconds(1.0));
  EXPECT_EQ(stage.input_gradient, Seconds(2.0));
  EXPECT_EQ(stage.weight_gradient, Seconds(4.0));
  EXPECT_EQ(stage.backward, Seconds(6.0));
  EXPECT_EQ(stage.alone, Seconds(8.0));
  EXPECT_EQ(stage.recompute, Seconds(0.0));
}

// By hand: 3 s more of forward and 5 s of backward passes, half of each for both chunks; weight
// gradients and what nothing hides stay as they are.
TEST(AddToPasses, SharesItAmongTheChunks) {
  std::vector<StageDurations> stages = {
      stage_durations(Seconds(1.0), Seconds(2.0), Seconds(4.0), Seconds(8.0)),
      stage_durations(Seconds(10.0), Seconds(20.0), Seconds(40.0))};
  add_to_passes(Seconds(3.0), Seconds(5.0), stages);
  EXPECT_EQ(stages[0].forward, Seconds(2.5));
  EXPECT_EQ(stages[0].input_gradient, Seconds(4.5));
  EXPECT_EQ(stages[0].weight_gradient, Seconds(4.0));
  EXPECT_EQ(stages[0].backward, Seconds(8.5));
  EXPECT_EQ(stages[0].alone, Seconds(8.0));
  EXPECT_EQ(stages[1].forward, Seconds(11.5));
  EXPECT_EQ(stages[1].input_gradient, Seconds(22.5));
  EXPECT_EQ(stages[1].backward, Seconds(62.5));
}

TEST(MessageBetween, TakesTheLinkOfTheNodesWhereHopsAreAlike) {
  StepTimes times;
  times.within_node = {Seconds(1.0), Seconds(0.5)};
  times.across_nodes = {Seconds(2.0), Seconds(0.25)};
  EXPECT_TRUE(is_within_node(times, 0, 3));
  EXPECT_EQ(message_between(times, 0, 3).total(), Seconds(1.5));
  times.node_of = {0, 0, 1};
  EXPECT_TRUE(is_within_node(times, 0, 1));
  EXPECT_FALSE(is_within_node(times, 1, 2));
  EXPECT_EQ(message_between(times, 1, 0).total(), Seconds(1.5));
  EXPECT_EQ(message_between(times, 1, 2).total(), Seconds(2.25));
  EXPECT_EQ(message_between(times, 2, 0).total(), Seconds(2.25));
}

// Each rank has one hop to the next, the last one to the first; a message may go either way.
TEST(MessageBetween, TakesTheHopOfTheTwoRanks) {
  StepTimes times;
  times.hops = {{Seconds(0.0), Seconds(1.0)},
                {Seconds(0.0), Seconds(2.0)},
                {Seconds(0.0), Seconds(3.0)},
                {Seconds(0.0), Seconds(4.0)}};
  for (int rank = 0; rank < 4; ++rank) {
    const std::array<int, 2> ends = {rank, (rank + 1) % 4};
    EXPECT_EQ(message_between(times, ends[0], ends[1]).transfer, Seconds(rank + 1.0)) << rank;
    EXPECT_EQ(message_between(times, ends[1], ends[0]).transfer, Seconds(rank + 1.0)) << rank;
  }
}

}  // namespace
}  // namespace ptdp
