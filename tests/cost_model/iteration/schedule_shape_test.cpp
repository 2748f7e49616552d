// Tests of the schedule shape that a configuration asks for.
#include "cost_model/iteration/schedule_shape.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/cost_model/simulation/plain_pipelines.h"

namespace ptdp {
namespace {

TEST(ScheduleSizes, AreThoseOfTheConfiguration) {
  const ScheduleShape interleaved = schedule_sizes(
      {.pp = 4, .vpp = 3, .schedule = ScheduleKind::kInterleaved, .memory_limit = 9}, 16);
  EXPECT_EQ(interleaved.pp, 4);
  EXPECT_EQ(interleaved.vpp, 3);
  EXPECT_EQ(interleaved.num_microbatches, 16);
  EXPECT_EQ(interleaved.memory_limit, std::nullopt) << "of a search alone";
  ParallelConfig searched{.pp = 4, .schedule = ScheduleKind::kZbAuto};
  EXPECT_EQ(schedule_sizes(searched, 16).memory_limit, 4);
  searched.memory_limit = 9;
  EXPECT_EQ(schedule_sizes(searched, 16).memory_limit, 9);
}

// By hand: of whole seconds a tick is one; else a ten-thousandth of the longest, here 2.5 s.
TEST(ScheduleShape, OfASearchHasDurationsInTicks) {
  const ParallelConfig config{.pp = 2, .schedule = ScheduleKind::kZbAuto};
  StackSpec stack;
  std::vector<StageDurations> durations = {
      stage_durations(Seconds(2.0), Seconds(3.0), Seconds(4.0)),
      stage_durations(Seconds(5.0), Seconds(6.0), Seconds(7.0))};
  const ScheduleShape whole = schedule_shape(config, 8, durations, Seconds(1.0), stack);
  EXPECT_EQ(whole.ticks, (std::vector<StageTicks>{{2, 3, 4}, {5, 6, 7}}));
  EXPECT_EQ(whole.message_ticks, 1);
  EXPECT_EQ(whole.memory_limit, 2);
  EXPECT_FALSE(whole.shortens_spans);
  durations = {stage_durations(Seconds(0.5), Seconds(1.0), Seconds(2.5)),
               stage_durations(Seconds(0.25), Seconds(0.0), Seconds(2.0))};
  stack.optimizer_post_validation = true;
  const ScheduleShape fine = schedule_shape(config, 8, durations, Seconds(0.0), stack);
  EXPECT_EQ(fine.ticks, (std::vector<StageTicks>{{2000, 4000, 10000}, {1000, 1, 8000}}));
  EXPECT_EQ(fine.message_ticks, 0);
  EXPECT_TRUE(fine.shortens_spans);
}

// What others are made of does not depend on durations, so that equal sizes have one schedule.
TEST(ScheduleShape, OfAnyOtherScheduleIsItsSizes) {
  const ParallelConfig config{.pp = 2};
  StackSpec stack;
  stack.optimizer_post_validation = true;
  const std::vector<StageDurations> durations = {
      stage_durations(Seconds(2.0), Seconds(3.0), Seconds(4.0))};
  const ScheduleShape shape = schedule_shape(config, 8, durations, Seconds(1.0), stack);
  EXPECT_TRUE(shape.ticks.empty());
  EXPECT_EQ(shape.message_ticks, 0);
  EXPECT_FALSE(shape.shortens_spans);
  EXPECT_EQ(shape.num_microbatches, 8);
}

// 12 sequences in microbatches of one.
TEST(ScheduleShape, OfAScenarioCountsItsMicrobatches) {
  ParallelConfig config = pipeline(ScheduleKind::kZbAuto, 2);
  const Scenario scenario = scenario_of(config, 12);
  const MicrobatchCosts costs = costs_of(1.0, 2.0, 3.0);
  const ScheduleShape shape = schedule_shape({scenario, config, &costs});
  EXPECT_EQ(shape.num_microbatches, 12);
  EXPECT_EQ(shape.ticks, (std::vector<StageTicks>{{1, 2, 3}, {1, 2, 3}}));
  config.schedule = ScheduleKind::kZbH1;
  EXPECT_TRUE(schedule_shape({scenario, config, &costs}).ticks.empty());
}

}  // namespace
}  // namespace ptdp
