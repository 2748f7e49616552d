// Tests of a rank's memory over a step.
#include "cost_model/simulation/analysis/memory_profile.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/cost_model/simulation/complete_orders.h"
#include "tests/cost_model/simulation/random_steps.h"

namespace ptdp {
namespace {

StepTimes times_of_memory_tests() {
  StepTimes times;
  times.stages = {stage_durations(Seconds(1.0), Seconds(1.0), Seconds(1.0))};
  times.within_node = {Seconds(0.0), Seconds(0.5)};
  return times;
}

/// Returns the time and amount of every sample: "0:5 1:7".
std::string samples_of(const MemoryProfile& profile) {
  std::ostringstream text;
  for (const MemorySample& sample : profile.samples) {
    text << (text.tellp() > 0 ? " " : "") << sample.time.value() << ':' << sample.held.value();
  }
  return text.str();
}

// 1F1B: rank r of 4 holds 4 − r microbatches (arXiv:2006.09503).
TEST(MemoryProfile, PeaksWhereOneFOneBHoldsItsMost) {
  const Schedule schedule = one_f_one_b({.pp = 4, .num_microbatches = 8});
  const Timeline timeline = simulate_step(schedule, times_of_memory_tests());
  for (int rank = 0; rank < 4; ++rank) {
    const MemoryProfile profile =
        memory_profile(schedule, timeline.spans[rank], rank,
                       {.activations = {Bytes(10.0)}, .fixed = {Bytes(100.0)}});
    EXPECT_EQ(profile.peak, Bytes(100.0 + 10.0 * (4 - rank))) << rank;
    EXPECT_EQ(profile.samples.back().held, Bytes(100.0)) << rank;
  }
}

// By hand: F from 0 to 1 s, I to 2 s, W to 3 s.
TEST(MemoryProfile, HoldsActivationsUntilTheWeightGradient) {
  const Schedule schedule = complete_schedule({"0F0 0I0 0W0"}, 1);
  const Timeline timeline = simulate_step(schedule, times_of_memory_tests());
  EXPECT_EQ(
      samples_of(memory_profile(schedule, timeline.spans[0], 0, {.activations = {Bytes(8.0)}})),
      "0:8 3:0");
}

// By hand: F 0-1, B 1-3, F 3-4, B 4-6 s: what B frees is taken again at once.
TEST(MemoryProfile, TakesAgainWhatIsFreedAtTheSameTime) {
  const Schedule schedule = complete_schedule({"0F0 0B0 0F1 0B1"}, 2);
  const Timeline timeline = simulate_step(schedule, times_of_memory_tests());
  const MemoryProfile profile =
      memory_profile(schedule, timeline.spans[0], 0,
                     {.activations = {Bytes(8.0)}, .working = {Bytes(2.0)}, .fixed = {Bytes(1.0)}});
  EXPECT_EQ(samples_of(profile), "0:11 6:1");
  EXPECT_EQ(profile.peak, Bytes(11.0));
  EXPECT_EQ(profile.peak_time, Seconds(0.0));
}

// By hand, rank 0: F 0-1, send 1-1.5, receive 4.5-5, B 5-7 s. Rank 1: receive 1-1.5, F 1.5-2.5, B
// 2.5-4.5, send 4.5-5 s.
TEST(MemoryProfile, HoldsTheBuffersOfMessages) {
  const Schedule schedule =
      complete_schedule({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}, 1);
  const Timeline timeline = simulate_step(schedule, times_of_memory_tests());
  const MemoryUse use{.activations = {Bytes(8.0)}, .message = Bytes(1.0)};
  EXPECT_EQ(samples_of(memory_profile(schedule, timeline.spans[0], 0, use)),
            "0:8 1:9 1.5:8 4.5:9 7:0");
  EXPECT_EQ(samples_of(memory_profile(schedule, timeline.spans[1], 1, use)),
            "0:0 1:1 1.5:9 2.5:8 4.5:1 5:0");
}

// By hand, rank 0: F 0-1 and 1-2, sends 2-2.5 and 2.5-3 s. What is to be sent is there from its F
// on.
TEST(MemoryProfile, HoldsWhatWaitsToBeSent) {
  const Schedule schedule =
      complete_schedule({"0F0 0F1 0SEND_F0 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1",
                         "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1"},
                        2);
  StepTimes times = times_of_memory_tests();
  times.messages = MessageMode::kBlocking;
  const Timeline timeline = simulate_step(schedule, times);
  const MemoryUse use{.activations = {Bytes(8.0)}, .message = Bytes(1.0)};
  EXPECT_THAT(samples_of(memory_profile(schedule, timeline.spans[0], 0, use)),
              testing::StartsWith("0:8 1:17 2:18 2.5:17 3:16 "));
}

TEST(MemoryProfile, TakesAmountsStageByStage) {
  const Schedule schedule = complete_schedule({"0F0 1COPY_F0 1F0 1B0 0COPY_B0 0B0"}, 1, 2);
  const Timeline timeline = simulate_step(schedule, times_of_memory_tests());
  EXPECT_EQ(samples_of(memory_profile(
                schedule, timeline.spans[0], 0,
                {.activations = {Bytes(3.0), Bytes(5.0)}, .working = {Bytes(10.0), Bytes(20.0)}})),
            "0:13 1:28 4:13 6:0");
}

// The engines count what is held by themselves, from the end of F on: durations above zero.
TEST(MemoryProfile, PeaksAtTheActivationsThatTheSimulatorCounts) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_step();
    for (StageDurations& stage : step.times.stages) {
      stage = stage_durations(stage.forward + Seconds(0.1), stage.input_gradient + Seconds(0.1),
                              stage.weight_gradient + Seconds(0.1));
    }
    const Timeline timeline = simulate_step(step.schedule, step.times);
    for (int rank = 0; rank < step.schedule.pp; ++rank) {
      const bool has_pairs =
          std::any_of(step.schedule.orders[rank].begin(), step.schedule.orders[rank].end(),
                      [](const Action& action) { return action.overlaps_next; });
      const MemoryProfile profile =
          memory_profile(step.schedule, timeline.spans[rank], rank, {.activations = {Bytes(1.0)}});
      const double counted = timeline.times.ranks[rank].peak_activations;
      // In a pair F starts before its partner frees anything, however its two are written.
      RC_ASSERT(profile.peak.value() >= counted);
      RC_ASSERT(has_pairs || profile.peak.value() == counted);
      RC_ASSERT(profile.samples.back().held == Bytes(0.0));
    }
  }));
}

}  // namespace
}  // namespace ptdp
