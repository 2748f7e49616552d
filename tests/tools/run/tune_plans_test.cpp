// Tests which steps --tune measures of the turns in which a plan runs.
#include "tools/run/tune_plans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tools/run/measured_terms.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr OperationTiming kAlways = {};
/// How a run on GPUs times operations, behind a warm-up of two steps.
constexpr OperationTiming kNowAndThen = {.first = 2, .period = 4};

/// Returns the numbers of the steps of a turn that time operations.
std::vector<std::int64_t> timed_steps(const Turn& turn) {
  std::vector<std::int64_t> timed;
  for (std::int64_t step = 0; step < turn.steps; ++step) {
    if (turn.timing.includes(step)) {
      timed.push_back(step);
    }
  }
  return timed;
}

TEST(Turn, TimesOperationsInOneMoreStepBehindThoseThatAreMeasured) {
  for (const std::int64_t measured : {1, 2, 5, 40}) {
    const Turn turn = turn_of(measured, /*warm_up=*/2, kNowAndThen);
    EXPECT_EQ(turn.steps, measured + 3);
    EXPECT_THAT(timed_steps(turn), ElementsAre(measured + 2));
  }
}

TEST(Turn, IsNoLongerWhereTimesOfOperationsCostNothing) {
  const Turn turn = turn_of(/*measured=*/2, /*warm_up=*/1, kAlways);
  EXPECT_EQ(turn.steps, 3);
  EXPECT_THAT(timed_steps(turn), ElementsAre(0, 1, 2));
}

/// Returns the record of a turn. A step of its warm-up takes 50 s, one that times operations 9 s,
/// and the others 2 s each. Ranks pause for 1 s between two steps.
RunRecord record_of(const Turn& turn, std::int64_t warm_up) {
  RunRecord record{.ranks = std::vector<RankRecord>(1)};
  double end = 100.0;
  for (std::int64_t step = 0; step < turn.steps; ++step) {
    const bool is_timed = turn.timing.includes(step);
    const double start = end + 1.0;
    end = start + (step < warm_up ? 50.0 : is_timed ? 9.0 : 2.0);
    StepRecord& added = record.ranks.front().steps.emplace_back();
    added.step = {.start = Seconds(start), .end = Seconds(end)};
    if (is_timed) {
      added.operations.emplace();
    }
  }
  return record;
}

// The first step of a turn is measured from its own start: before it the other plans had theirs.
TEST(AddTurn, KeepsAsManyUndisturbedStepsAsWereAskedFor) {
  RunRecord all;
  for (const std::int64_t measured : {2, 1, 1}) {
    add_turn(all, record_of(turn_of(measured, /*warm_up=*/2, kNowAndThen), 2), 2);
  }
  EXPECT_EQ(all.ranks.front().steps.size(), 7U);
  EXPECT_THAT(undisturbed_step_times(all, 0), ElementsAre(2.0, 3.0, 2.0, 2.0));
}

TEST(AddTurn, KeepsTheStepThatTimedOperationsOfALongTurn) {
  RunRecord all;
  add_turn(all, record_of(turn_of(/*measured=*/40, /*warm_up=*/0, kNowAndThen), 0), 0);
  const std::vector<StepRecord>& steps = all.ranks.front().steps;
  EXPECT_EQ(std::ssize(steps), kDetailedSteps);
  EXPECT_TRUE(steps.back().operations.has_value());
  EXPECT_EQ(std::ssize(undisturbed_step_times(all, 0)), kDetailedSteps - 1);
}

TEST(AddTurn, OfNothingButWarmUpAddsNoSteps) {
  RunRecord all;
  add_turn(all, record_of({.steps = 2, .timing = kAlways}, 2), 2);
  EXPECT_THAT(all.ranks.front().steps, IsEmpty());
}

}  // namespace
}  // namespace ptdp
