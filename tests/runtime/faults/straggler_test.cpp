// Which rank holds the others up, out of times made by hand.
#include "runtime/faults/straggler.h"

#include <gtest/gtest.h>

namespace ptdp::testing {
namespace {

/// One forward and one backward action on each of two stages.
TrainingSettings settings_of(int dp) {
  TrainingSettings settings;
  settings.config.pp = 2;
  settings.config.dp = dp;
  settings.schedule.pp = 2;
  settings.schedule.orders = {{{ActionKind::kForward, 0, 0}, {ActionKind::kBackward, 0, 0}},
                              {{ActionKind::kForward, 1, 0}, {ActionKind::kBackward, 1, 0}}};
  return settings;
}

/// Four steps of a rank whose forward action takes a third of `compute`, the backward the rest, and
/// which waits `waits` within the latter.
RankRecord rank_that_takes(double compute, double waits = 0.0) {
  StepRecord step;
  const double middle = compute / 3.0;
  step.actions = {{.start = Seconds(0.0), .end = Seconds(middle)},
                  {.start = Seconds(middle), .end = Seconds(compute + waits)}};
  step.sub_spans = {
      {.action = 1, .span = {.start = Seconds(middle), .end = Seconds(middle + waits)}}};
  return {.steps = {4, step}};
}

TEST(Straggler, IsTheOneOfItsStageThatComputesLonger) {
  const std::vector<RankRecord> ranks = {rank_that_takes(1.0), rank_that_takes(1.1),
                                         rank_that_takes(3.0), rank_that_takes(6.0)};
  const auto found = find_straggler(settings_of(2), ranks, 0, {}, Seconds(8.0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3);
  EXPECT_DOUBLE_EQ(found->factor, 2.0);
  EXPECT_DOUBLE_EQ(found->lost.value(), 3.0);
}

TEST(Straggler, IsNoneWhereStagesMerelyDiffer) {
  const std::vector<RankRecord> ranks = {rank_that_takes(1.0), rank_that_takes(1.2),
                                         rank_that_takes(3.0), rank_that_takes(3.3)};
  EXPECT_FALSE(find_straggler(settings_of(2), ranks, 0, {}, Seconds(5.0)));
}

// Who waits in a collective for a slow peer is in his action as long as he.
TEST(Straggler, IsNotWhoWaitsForIt) {
  const std::vector<RankRecord> ranks = {rank_that_takes(2.0), rank_that_takes(1.0, 1.0),
                                         rank_that_takes(1.0, 1.0), rank_that_takes(1.0, 1.0)};
  const auto found = find_straggler(settings_of(2), ranks, 0, {}, Seconds(3.0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 0);
}

// Of the two seconds of its collective the slow rank computes one and a half.
TEST(Straggler, ComputesBehindACollective) {
  std::vector<RankRecord> ranks = {rank_that_takes(1.0), rank_that_takes(1.0), rank_that_takes(2.0),
                                   rank_that_takes(2.5, 2.0)};
  for (StepRecord& step : ranks.back().steps) {
    step.sub_spans.front().hidden = Seconds(1.5);
  }
  const auto found = find_straggler(settings_of(2), ranks, 0, {}, Seconds(5.0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 3);
  EXPECT_DOUBLE_EQ(found->factor, 2.0);
}

TEST(Straggler, AloneOnItsStageIsFoundByWhatIsPredicted) {
  const std::vector<RankRecord> ranks = {rank_that_takes(1.0), rank_that_takes(4.0)};
  const std::vector<double> predicted = {0.9, 1.8};
  const auto found = find_straggler(settings_of(1), ranks, 0, predicted, Seconds(6.0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_DOUBLE_EQ(found->factor, 2.0);
  EXPECT_FALSE(find_straggler(settings_of(1), ranks, 0, {}, Seconds(6.0)));
  const std::vector<double> right = {0.9, 3.0};
  EXPECT_FALSE(find_straggler(settings_of(1), ranks, 0, right, Seconds(6.0)));
}

TEST(Straggler, IsNoneWhereLittleIsLostOrFewStepsWereMeasured) {
  const std::vector<RankRecord> ranks = {rank_that_takes(1.0), rank_that_takes(2.0),
                                         rank_that_takes(1.0), rank_that_takes(1.0)};
  EXPECT_TRUE(find_straggler(settings_of(2), ranks, 0, {}, Seconds(10.0)));
  EXPECT_FALSE(find_straggler(settings_of(2), ranks, 0, {}, Seconds(100.0)));
  EXPECT_FALSE(find_straggler(settings_of(2), ranks, 2, {}, Seconds(10.0)));
}

}  // namespace
}  // namespace ptdp::testing
