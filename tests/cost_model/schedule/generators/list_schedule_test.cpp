// Tests of list scheduling, by which zb-auto searches.
#include "cost_model/schedule/generators/list_schedule.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace ptdp {
namespace {

/// Returns what a rank does as letters: "FIW".
std::string letters_of(const std::vector<Pass>& passes) {
  std::string text;
  for (const Pass pass : passes) {
    text += pass == Pass::kForward ? 'F' : pass == Pass::kInput ? 'I' : 'W';
  }
  return text;
}

// By hand, F = 2, I = 3, W = 4, messages of 1: rank 0 F 0-2, rank 1 F 3-5, I 5-8, W 8-12, rank 0 I
// 9-12, W 12-16.
TEST(ListSchedule, OfOneMicrobatchIsItsWayThroughTheStages) {
  const std::vector<StageTicks> ticks = {{2, 3, 4}};
  const SearchedShape shape{
      .pp = 2, .num_microbatches = 1, .ticks = ticks, .message_ticks = 1, .memory_limit = 1};
  const std::vector<Choices> choices(2, Choices{.lead_limit = 1});
  const ListScheduled found = list_schedule(shape, choices, kNoEvent);
  const Score expected{.makespan = 16, .longest_span = 16, .sum_of_ends = 28};
  ASSERT_TRUE(found.score.has_value());
  EXPECT_EQ(*found.score, expected);
  EXPECT_EQ(found.num_started, 6);
  for (const std::vector<Pass>& list : found.lists) {
    EXPECT_EQ(letters_of(list), "FIW");
  }
  EXPECT_EQ(score_of(shape, found.lists), expected);
}

// One rank by hand: where memory is for one, W comes first; else F and I in turn, or F as far
// ahead as they may be, and W where nothing else is left.
TEST(ListSchedule, OfOneRankFollowsItsChoices) {
  const auto list = [](int memory_limit, const Choices& choices) {
    const SearchedShape shape{.pp = 1, .num_microbatches = 3, .memory_limit = memory_limit};
    const std::vector<Choices> of_ranks = {choices};
    return letters_of(list_schedule(shape, of_ranks, kNoEvent).lists.at(0));
  };
  EXPECT_EQ(list(1, {.lead_limit = 1}), "FIWFIWFIW");
  EXPECT_EQ(list(3, {.lead_limit = 3}), "FIFIFIWWW");
  EXPECT_EQ(list(3, {.lead_limit = 1, .gradient_first = true}), "FIFIFIWWW");
  EXPECT_EQ(list(2, {.lead_limit = 2}), "FIFIWFIWW");
}

/// A random shape with what it refers to, and choices of its ranks.
struct RandomCase {
  SearchedShape sizes;
  std::vector<StageTicks> ticks;
  std::vector<Choices> choices;

  [[nodiscard]] SearchedShape shape() const {
    SearchedShape whole = sizes;
    whole.ticks = ticks;
    return whole;
  }
};

RandomCase random_case(std::mt19937& random) {
  const auto between = [&](int low, int high) {
    return low + static_cast<int>(random() % static_cast<unsigned>(high - low + 1));
  };
  RandomCase result;
  result.sizes.pp = between(1, 5);
  result.sizes.num_microbatches = between(1, 8);
  result.sizes.message_ticks = between(0, 3);
  result.sizes.memory_limit = between(1, 2 * result.sizes.pp);
  for (int rank = 0; rank < result.sizes.pp; ++rank) {
    result.ticks.push_back({between(1, 9), between(1, 9), between(1, 9)});
    result.choices.push_back({.lead_limit = between(1, 2 * result.sizes.pp),
                              .gradient_first = between(0, 1) == 1,
                              .fills_small_gaps = between(0, 1) == 1});
  }
  return result;
}

TEST(ListSchedule, DoesEveryPassWithinItsMemoryAndItsLead) {
  std::mt19937 random(4);
  for (int round = 0; round < 500; ++round) {
    const RandomCase drawn = random_case(random);
    const SearchedShape shape = drawn.shape();
    const std::vector<Choices>& choices = drawn.choices;
    const ListScheduled found = list_schedule(shape, choices, kNoEvent);
    ASSERT_TRUE(found.score.has_value()) << round;
    EXPECT_EQ(found.num_started, 3 * shape.pp * shape.num_microbatches) << round;
    for (int rank = 0; rank < shape.pp; ++rank) {
      int forwards = 0;
      int inputs = 0;
      int weights = 0;
      for (const Pass pass : found.lists[rank]) {
        ++(pass == Pass::kForward ? forwards : pass == Pass::kInput ? inputs : weights);
        EXPECT_LE(forwards - weights, shape.memory_limit) << round;
        EXPECT_LE(forwards - inputs, choices[rank].lead_limit) << round;
        EXPECT_LE(weights, inputs) << round;
      }
      for (const int count : {forwards, inputs, weights}) {
        EXPECT_EQ(count, shape.num_microbatches) << round;
      }
    }
    // The lists that were found, done in order, end no later than their score says.
    EXPECT_LE(score_of(shape, found.lists).makespan, found.score->makespan) << round;
  }
}

TEST(ListSchedule, IsGivenUpWhereItWouldEndBehindTheLimit) {
  std::mt19937 random(5);
  for (int round = 0; round < 500; ++round) {
    const RandomCase drawn = random_case(random);
    const SearchedShape shape = drawn.shape();
    const std::vector<Choices>& choices = drawn.choices;
    const ListScheduled whole = list_schedule(shape, choices, kNoEvent);
    const std::int64_t makespan = whole.score->makespan;
    const ListScheduled at_limit = list_schedule(shape, choices, makespan);
    EXPECT_EQ(at_limit.score, whole.score) << round;
    EXPECT_EQ(at_limit.lists, whole.lists) << round;
    EXPECT_EQ(list_schedule(shape, choices, makespan - 1).score, std::nullopt) << round;
  }
}

TEST(Score, IsJudgedByTheMakespanThenTheSpanThenTheEnds) {
  const Score best{.makespan = 5, .longest_span = 5, .sum_of_ends = 8};
  EXPECT_LT(best, (Score{.makespan = 6, .longest_span = 4, .sum_of_ends = 7}));
  EXPECT_LT(best, (Score{.makespan = 5, .longest_span = 6, .sum_of_ends = 7}));
  EXPECT_LT(best, (Score{.makespan = 5, .longest_span = 5, .sum_of_ends = 9}));
  Score score{.makespan = 0, .longest_span = 0, .sum_of_ends = 0};
  score.add_rank(3, 7);
  score.add_rank(1, 6);
  EXPECT_EQ(score, (Score{.makespan = 7, .longest_span = 5, .sum_of_ends = 13}));
}

}  // namespace
}  // namespace ptdp
