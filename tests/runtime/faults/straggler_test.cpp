// Tests which rank is found to hold up the others, with times made by hand.
#include "runtime/faults/straggler.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace ptdp::testing {
namespace {

/// Returns settings with one forward and one backward action on each of two stages.
TrainingSettings settings_of(int dp) {
  TrainingSettings settings;
  settings.config.pp = 2;
  settings.config.dp = dp;
  settings.schedule.pp = 2;
  settings.schedule.orders = {{{ActionKind::kForward, 0, 0}, {ActionKind::kBackward, 0, 0}},
                              {{ActionKind::kForward, 1, 0}, {ActionKind::kBackward, 1, 0}}};
  return settings;
}

/// Returns four steps of a rank. Its forward action takes a third of `compute` and the backward one
/// the rest, in which it also waits `waits`.
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

// A rank that waits in a collective for a slow peer is in its action as long as the peer.
TEST(Straggler, IsNotWhoWaitsForIt) {
  const std::vector<RankRecord> ranks = {rank_that_takes(2.0), rank_that_takes(1.0, 1.0),
                                         rank_that_takes(1.0, 1.0), rank_that_takes(1.0, 1.0)};
  const auto found = find_straggler(settings_of(2), ranks, 0, {}, Seconds(3.0));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 0);
}

// The slow rank computes during one and a half of the two seconds of its collective.
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

// 1.4 times as long as the other of its stage, 1.8 times as long as is predicted of all.
TEST(Straggler, IsOneFromTheBoundsOn) {
  const auto is_found = [](int dp, double slow, std::span<const double> predicted) {
    std::vector<RankRecord> ranks(static_cast<std::size_t>(2 * dp), rank_that_takes(1.0));
    ranks.back() = rank_that_takes(slow);
    const auto found = find_straggler(settings_of(dp), ranks, 0, predicted, Seconds(1.0));
    EXPECT_TRUE(!found || found->rank == 2 * dp - 1);
    return found.has_value();
  };
  EXPECT_FALSE(is_found(2, 1.39, {}));
  EXPECT_TRUE(is_found(2, 1.41, {}));
  const std::vector<double> predicted = {1.0, 1.0};
  EXPECT_FALSE(is_found(1, 1.79, predicted));
  EXPECT_TRUE(is_found(1, 1.81, predicted));
}

// The rank takes 2 s in place of 1: the second that is lost is a twentieth of 20 s.
TEST(Straggler, LosesATwentiethOfTheStepAtLeast) {
  const std::vector<RankRecord> ranks = {rank_that_takes(1.0), rank_that_takes(2.0),
                                         rank_that_takes(1.0), rank_that_takes(1.0)};
  EXPECT_TRUE(find_straggler(settings_of(2), ranks, 0, {}, Seconds(19.9)));
  EXPECT_FALSE(find_straggler(settings_of(2), ranks, 0, {}, Seconds(20.1)));
}

// Five times as long as 0.2 s is less of a loss than twice as long as 4 s.
TEST(Straggler, IsWhoLosesMostAndNotWhoIsSlowestByFactor) {
  for (const bool is_first : {true, false}) {
    std::vector<RankRecord> ranks = {rank_that_takes(0.2), rank_that_takes(1.0),
                                     rank_that_takes(4.0), rank_that_takes(8.0)};
    if (is_first) {
      std::swap(ranks[0], ranks[2]);
      std::swap(ranks[1], ranks[3]);
    }
    const auto found = find_straggler(settings_of(2), ranks, 0, {}, Seconds(10.0));
    ASSERT_TRUE(found);
    EXPECT_EQ(found->rank, is_first ? 1 : 3);
    EXPECT_DOUBLE_EQ(found->lost.value(), 4.0);
  }
}

// The first of five steps is of the warm-up. In two of the other four the rank is slow: the lower
// of the two in the middle is not.
TEST(Straggler, IsJudgedByTheLowerMedianOfTheMeasuredSteps) {
  std::vector<RankRecord> ranks(4, rank_that_takes(1.0));
  const StepRecord usual = ranks[0].steps.front();
  const StepRecord slow = rank_that_takes(3.0).steps.front();
  for (RankRecord& rank : ranks) {
    rank.steps.assign(5, usual);
  }
  ranks[1].steps = {slow, usual, slow, usual, slow};
  EXPECT_TRUE(find_straggler(settings_of(2), ranks, 0, {}, Seconds(3.0))) << "in three of five";
  EXPECT_FALSE(find_straggler(settings_of(2), ranks, 1, {}, Seconds(3.0))) << "in two of four";
  EXPECT_TRUE(find_straggler(settings_of(2), ranks, 2, {}, Seconds(3.0))) << "in two of three";
  EXPECT_FALSE(find_straggler(settings_of(2), ranks, 3, {}, Seconds(3.0))) << "two are too few";
}

// Alone on a stage and alone in the run there is nothing to compare with.
TEST(Straggler, IsNoneOfOneRank) {
  TrainingSettings settings = settings_of(1);
  settings.config.pp = 1;
  settings.schedule.orders.resize(1);
  const std::vector<RankRecord> ranks = {rank_that_takes(10.0)};
  const std::vector<double> predicted = {1.0};
  EXPECT_FALSE(find_straggler(settings, ranks, 0, predicted, Seconds(10.0)));
}

}  // namespace
}  // namespace ptdp::testing
