// Tests of steps whose communication takes turns with compute.
#include "cost_model/simulation/turn_taking.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>
#include <vector>

#include "cost_model/schedule/generators/generators.h"
#include "cost_model/simulation/engine/step_simulator.h"

namespace ptdp {
namespace {

StageDurations whole_passes(double forward, double input_gradient, double weight_gradient) {
  return stage_durations(Seconds(forward), Seconds(input_gradient), Seconds(weight_gradient));
}

// Four chunks on two ranks, messages of 1 s; the last chunk sends nothing forward, the first
// nothing back.
TEST(DurationsWithSends, HaveAMessageMoreWhereOneIsSent) {
  StepTimes times;
  times.stages = std::vector<StageDurations>(4, whole_passes(2.0, 3.0, 4.0));
  times.within_node = {Seconds(0.25), Seconds(0.75)};
  const std::vector<StageDurations> durations = durations_with_sends(times, 2);
  ASSERT_EQ(durations.size(), 4U);
  for (int stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(durations[stage].forward, Seconds(stage < 3 ? 3.0 : 2.0)) << stage;
    EXPECT_EQ(durations[stage].input_gradient, Seconds(stage > 0 ? 4.0 : 3.0)) << stage;
    EXPECT_EQ(durations[stage].backward, Seconds(stage > 0 ? 8.0 : 7.0)) << stage;
    EXPECT_EQ(durations[stage].weight_gradient, Seconds(4.0)) << stage;
  }
  EXPECT_EQ(durations_with_sends(times, 1)[0].forward, Seconds(2.0));
  // Each send takes its own hop: of rank 0 to rank 1, and of the last rank back to the first.
  times.hops = {
      {Seconds(0.0), Seconds(10.0)}, {Seconds(0.0), Seconds(20.0)}, {Seconds(0.0), Seconds(30.0)}};
  times.stages.resize(6, whole_passes(2.0, 3.0, 4.0));
  const std::vector<StageDurations> by_hop = durations_with_sends(times, 3);
  for (int stage = 0; stage < 5; ++stage) {
    EXPECT_EQ(by_hop[stage].forward, Seconds(2.0 + 10.0 * (stage % 3 + 1))) << stage;
    EXPECT_EQ(by_hop[stage + 1].backward, Seconds(7.0 + 10.0 * (stage % 3 + 1))) << stage;
  }
}

// Random pipelines whose last rank has the longest pair of passes take as long as simulated action
// by action.
TEST(PassesPacedByLastRank, AreThoseOfTheSimulation) {
  std::mt19937 random(3);
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  constexpr int longest_pair = 24;
  for (int round = 0; round < 500; ++round) {
    const int pp = between(1, 6);
    const int microbatches = between(1, 14);
    std::vector<StageDurations> durations;
    durations.reserve(static_cast<std::size_t>(pp));
    for (int rank = 0; rank < pp; ++rank) {
      const int pair = rank + 1 < pp ? between(longest_pair / 2, longest_pair) : longest_pair;
      const int forward = between(0, longest_pair / 2);
      const int input_gradient = between(0, pair - forward);
      durations.push_back(whole_passes(forward, input_gradient, pair - forward - input_gradient));
    }
    const auto paced = passes_paced_by_last_rank(durations, microbatches);
    ASSERT_TRUE(paced.has_value());
    const SimulatedTimes simulated =
        simulate(one_f_one_b({.pp = pp, .num_microbatches = microbatches}), durations);
    for (int rank = 0; rank < pp; ++rank) {
      EXPECT_EQ(paced->ranks[rank].start, simulated.ranks[rank].start) << round << ' ' << rank;
      EXPECT_EQ(paced->ranks[rank].end, simulated.ranks[rank].end) << round << ' ' << rank;
      EXPECT_EQ(paced->ranks[rank].compute_end, simulated.ranks[rank].end) << round;
      EXPECT_EQ(paced->ranks[rank].work, simulated.ranks[rank].work) << round << ' ' << rank;
    }
  }
}

// With longer pairs elsewhere the last rank waits. With a forward pass longer than another rank's
// pair the pipeline fills so slowly that a backward pass may wait for it.
TEST(PassesPacedByLastRank, AreNoneWhereAnotherPaces) {
  const StageDurations last = whole_passes(2.0, 3.0, 0.0);
  EXPECT_TRUE(passes_paced_by_last_rank({last, last}, 4).has_value());
  EXPECT_TRUE(passes_paced_by_last_rank({whole_passes(2.5, 1.0, 0.5), last}, 4).has_value());
  EXPECT_FALSE(passes_paced_by_last_rank({whole_passes(2.5, 2.5, 0.5), last}, 4).has_value());
  EXPECT_FALSE(passes_paced_by_last_rank(
                   {whole_passes(2.5, 1.0, 0.5), whole_passes(1.0, 1.0, 0.25), last}, 4)
                   .has_value());
}

/// Returns the passes of two ranks with two chunks each: from 0 to 10 s and from 1 to 8 s.
SimulatedTimes passes_of_two_ranks() {
  return {.ranks = {{.start = Seconds(0.0), .end = Seconds(10.0), .compute_end = Seconds(10.0)},
                    {.start = Seconds(1.0), .end = Seconds(8.0), .compute_end = Seconds(8.0)}}};
}

StepTimes ends_of_two_ranks() {
  StepTimes times;
  times.gathers = {{Seconds(0.5), Seconds(0.5)},
                   {Seconds(0.0), Seconds(2.0)},
                   {Seconds(0.0), Seconds(0.125)},
                   {Seconds(0.0), Seconds(1.0)}};
  times.reductions = {{Seconds(0.0), Seconds(1.0)},
                      {Seconds(1.0), Seconds(1.0)},
                      {Seconds(0.0), Seconds(0.25)},
                      {Seconds(0.0), Seconds(0.5)}};
  times.tied = {Seconds(0.25), Seconds(0.25)};
  times.norm = Seconds(0.25);
  times.optimizer = {Seconds(1.0), Seconds(2.0)};
  return times;
}

// By hand, buckets of 2, 3, 4 and 1: rank 0 gathers for 2·1 + 4·0.125 = 2.5 s, rank 1 for 3·2 + 1
// = 7 s and so begins 6 s later than without; rank 0 then ends at 16 s, rank 1 at 14 s. They reduce
// for 2·1 + 4·0.25 = 3 s and 3·2 + 0.5 = 6.5 s, until 19 s and 20.5 s, and sum the tied embedding
// together until 21 s. Then 0.25 s for the norm, and the optimizer.
TEST(WithEnds, PutsGathersInFrontAndReductionsBehind) {
  const StepActions actions{
      .gradient_buckets = {2, 3, 4, 1}, .gathers_parameters = true, .ties_embeddings = true};
  StepTimes times = ends_of_two_ranks();
  const SimulatedTimes met = with_ends(passes_of_two_ranks(), times, actions);
  EXPECT_EQ(met.ranks[0].compute_end, Seconds(16.0));
  EXPECT_EQ(met.ranks[1].compute_end, Seconds(14.0));
  EXPECT_EQ(met.ranks[0].gathers, Seconds(2.5));
  EXPECT_EQ(met.ranks[1].gathers, Seconds(7.0));
  EXPECT_EQ(met.ranks[0].start, Seconds(6.0));
  EXPECT_EQ(met.ranks[1].start, Seconds(7.0));
  EXPECT_EQ(met.ranks[0].end, Seconds(22.25));
  EXPECT_EQ(met.ranks[1].end, Seconds(23.25));

  times.ranks_meet = false;
  const SimulatedTimes apart = with_ends(passes_of_two_ranks(), times, actions);
  EXPECT_EQ(apart.ranks[0].end, Seconds(19.5 + 1.25));
  EXPECT_EQ(apart.ranks[1].end, Seconds(21.0 + 2.25));
}

TEST(WithEnds, LeavesOutWhatAStepDoesNotHave) {
  StepTimes times = ends_of_two_ranks();
  const SimulatedTimes without = with_ends(
      passes_of_two_ranks(), times, {.gradient_buckets = {2, 3, 4, 1}, .reduces_gradients = false});
  EXPECT_EQ(without.ranks[0].start, Seconds(0.0));
  EXPECT_EQ(without.ranks[0].gathers, Seconds(0.0));
  EXPECT_EQ(without.ranks[0].end, Seconds(10.0 + 1.25));
  EXPECT_EQ(without.ranks[1].end, Seconds(10.0 + 2.25));
  // One rank has both ends of the model: there is nothing to sum.
  times.optimizer.resize(1);
  const SimulatedTimes alone = with_ends({.ranks = {{.end = Seconds(10.0)}}}, times,
                                         {.reduces_gradients = false, .ties_embeddings = true});
  EXPECT_EQ(alone.ranks[0].end, Seconds(11.25));
}

}  // namespace
}  // namespace ptdp
