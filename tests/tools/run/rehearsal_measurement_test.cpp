// Tests what a rehearsed rank measured, from records made by hand.
#include "tools/run/rehearsal_measurement.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>

#include "tests/cost_model/simulation/spans.h"

namespace ptdp {
namespace {

// Held are 100, of which 40, 20 and 10 are kept: 30 come and go in a step.
TEST(RehearsedMemory, IsWhatWasAllocatedByCategoryAndTheRest) {
  const MemoryBreakdown predicted{.weights = Bytes(41),
                                  .gradients = Bytes(21),
                                  .optimizer = Bytes(11),
                                  .activations = Bytes(16),
                                  .working_set = Bytes(8),
                                  .buffers = Bytes(4),
                                  .reserve = Bytes(1000)};
  const RehearsalRecord record{.rank = {.peak_bytes = 100},
                               .kept = {.weights = 40, .gradients = 20, .optimizer = 10}};
  struct Row {
    double predicted;
    double measured;
  };
  const std::map<std::string, Row> expected = {{"weights", {41, 40}},
                                               {"gradients", {21, 20}},
                                               {"optimizer", {11, 10}},
                                               {"the rest", {16 + 8 + 4, 100 - 40 - 20 - 10}},
                                               {"peak", {41 + 21 + 11 + 16 + 8 + 4, 100}}};
  const std::vector<RehearsedMemory> found = compare_rehearsed_memory(predicted, record);
  ASSERT_EQ(found.size(), expected.size());
  for (const RehearsedMemory& memory : found) {
    ASSERT_TRUE(expected.contains(memory.category)) << memory.category;
    const Row& row = expected.at(memory.category);
    EXPECT_EQ(memory.size.predicted, Bytes(row.predicted)) << memory.category;
    EXPECT_EQ(memory.size.measured, Bytes(row.measured)) << memory.category;
  }
  EXPECT_EQ(found.back().category, "peak");
}

using enum ActionKind;

/// Returns the settings of the second of two pipeline ranks, with a microbatch on each of its two
/// virtual stages.
TrainingSettings rehearsed_settings() {
  TrainingSettings settings;
  settings.schedule.pp = 2;
  settings.schedule.vpp = 2;
  settings.schedule.orders = {{},
                              {{kReceiveForward, 1, 0},
                               {kForward, 1, 0},
                               {kForward, 3, 0},
                               {kBackward, 3, 0},
                               {kReduceNorm, 1, 0},
                               {kOptimizer, 1, 0}}};
  return settings;
}

/// Returns a step whose forward pass on stage 1 takes `forward` seconds, one of them in a
/// collective that is half hidden. A collective that gathered the pass's message ended before.
StepRecord rehearsed_step(double forward, double norm, double matmul) {
  StepRecord step;
  const double begin = 2.0;
  const double end = begin + forward;
  step.actions = {span(1, 1),
                  span(begin, end),
                  span(end, end + 3),
                  span(end + 3, end + 8),
                  span(end + 8, end + 8 + norm),
                  span(end + 8 + norm, end + 9 + norm)};
  step.sub_spans = {{.action = 1, .span = span(0.5, 1.5)},
                    {.action = 1, .span = span(begin, begin + 1), .hidden = Seconds(0.5)},
                    {.action = 3, .span = span(end + 4, end + 6)}};
  step.operations = std::array{matmul, 1.0};
  return step;
}

// Forward passes of 4, 6 and 5 s, all less the half second that is waited; a backward pass of 5 s
// less the two of its collective. With 3 s on the other stage compute is 9.5, 11.5 and 10.5 s.
TEST(RehearsedTimes, AreMediansWithoutCollectives) {
  RehearsalRecord record;
  record.rank.steps = {rehearsed_step(4, 0.25, 1.9), rehearsed_step(6, 1.0, 4.6),
                       rehearsed_step(5, 0.5, 4.2)};
  const RehearsedTimes times = rehearsed_times(rehearsed_settings(), 1, record);
  EXPECT_EQ(times.rank, 1);
  ASSERT_EQ(times.stages.size(), 2U);
  EXPECT_DOUBLE_EQ(times.stages.at(1).forward.value(), 4.5);
  EXPECT_DOUBLE_EQ(times.stages.at(1).backward.value(), 0.0) << "it has none";
  EXPECT_DOUBLE_EQ(times.stages.at(3).forward.value(), 3.0);
  EXPECT_DOUBLE_EQ(times.stages.at(3).backward.value(), 3.0);
  EXPECT_DOUBLE_EQ(times.norm.value(), 0.5);
  EXPECT_DOUBLE_EQ(times.optimizer.value(), 1.0);
  EXPECT_NEAR(times.matmul_share, 0.4, 1e-12);  // of 0.2, 0.4 and 0.4
  EXPECT_NEAR(times.attention_share, 1.0 / 10.5, 1e-12);
}

// Clocks of operations and of actions are two: more than all of it is all of it.
TEST(RehearsedTimes, HaveSharesOfAWholeAtMost) {
  RehearsalRecord record;
  record.rank.steps = {rehearsed_step(4, 0.25, 100.0)};
  EXPECT_EQ(rehearsed_times(rehearsed_settings(), 1, record).matmul_share, 1.0);
}

}  // namespace
}  // namespace ptdp
