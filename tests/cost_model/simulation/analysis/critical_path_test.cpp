// Tests of the critical path of a step, and of what a slow rank costs.
#include "cost_model/simulation/analysis/critical_path.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cost_model/simulation/engine/step_simulator.h"
#include "tests/cost_model/simulation/complete_orders.h"
#include "tests/cost_model/simulation/random_steps.h"

namespace ptdp {
namespace {

StepTimes times_of_path_tests() {
  StepTimes times;
  times.stages = {stage_durations(Seconds(1.0), Seconds(1.0), Seconds(1.0))};
  times.within_node = {Seconds(0.25), Seconds(0.5)};
  times.reductions = {{Seconds(0.5), Seconds(1.0)}};
  times.norm = Seconds(0.125);
  times.optimizer = {Seconds(2.0)};
  return times;
}

CriticalPath path_of(const Schedule& schedule, const StepTimes& times) {
  return critical_path(schedule, times, simulate_step(schedule, times));
}

/// Returns the actions of the path in the order of time: "0F0 0SEND_F0 ...".
std::string actions_of(const Schedule& schedule, const CriticalPath& path) {
  std::string text;
  for (const PathStep& step : path.steps) {
    text += (text.empty() ? "" : " ") + to_string(schedule.orders[step.rank][step.position]);
  }
  return text;
}

// By hand: of three microbatches on one rank the first forward pass and the last backward one have
// none beside them, and take a quarter longer.
TEST(CriticalPath, HasPassesThatNothingIsBeside) {
  StepTimes times = times_of_path_tests();
  times.stages = {stage_durations(Seconds(1.0), Seconds(1.0), Seconds(1.0), Seconds(0.25))};
  const CriticalPath path =
      path_of(complete_schedule({"0F0 0B0 0F1 0B1 0F2 0B2 0NORM0 0OPTIMIZER0"}, 3), times);
  EXPECT_EQ(path.term(PathTerm::kForward), Seconds(3.25));
  EXPECT_EQ(path.term(PathTerm::kBackward), Seconds(6.25));
}

// By hand: F, message, F, B, message, B, reduction of the whole, norm, optimizer.
TEST(CriticalPath, FollowsOneMicrobatchThroughTheStages) {
  const Schedule schedule =
      complete_schedule({"0F0 0SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD0 0NORM0 0OPTIMIZER0",
                         "1RECV_F0 1F0 1B0 1SEND_B0 1NORM0 1OPTIMIZER0"},
                        1);
  const CriticalPath path = path_of(schedule, times_of_path_tests());
  EXPECT_EQ(path.term(PathTerm::kForward), Seconds(2.0));
  EXPECT_EQ(path.term(PathTerm::kBackward), Seconds(4.0));
  EXPECT_EQ(path.term(PathTerm::kMessageLatency), Seconds(0.5));
  EXPECT_EQ(path.term(PathTerm::kMessageTransfer), Seconds(1.0));
  EXPECT_EQ(path.term(PathTerm::kReductions), Seconds(1.5));
  EXPECT_EQ(path.term(PathTerm::kNorm), Seconds(0.125));
  EXPECT_EQ(path.term(PathTerm::kOptimizer), Seconds(2.0));
  EXPECT_EQ(path.term(PathTerm::kWaiting), Seconds(0.0));
  EXPECT_EQ(path.compute, (std::vector<Seconds>{Seconds(3.0), Seconds(3.0)}));
  EXPECT_EQ(path.steps.size(), 9U);
  EXPECT_EQ(path.steps.front().start, Seconds(0.0));
  EXPECT_EQ(path.steps.back().end, Seconds(11.125));
}

// By hand: B runs from 1 to 3 s. Four buckets of 1.5 s from 1.5 s on take until 7.5 s: a quarter of
// B is on the path. Buckets of an eighth of a second wait for the last quarter: all of B is.
TEST(CriticalPath, HasAsMuchOfAWeightGradientAsTheFirstBucketWaitsFor) {
  const Schedule schedule =
      complete_schedule({"0F0 0B0 0REDUCE_GRAD0 0REDUCE_GRAD1 0REDUCE_GRAD2 0REDUCE_GRAD3"}, 1);
  StepTimes times = times_of_path_tests();
  const CriticalPath slow = path_of(schedule, times);
  EXPECT_EQ(slow.term(PathTerm::kBackward), Seconds(0.5));
  EXPECT_EQ(slow.term(PathTerm::kReductions), Seconds(6.0));
  EXPECT_EQ(actions_of(schedule, slow),
            "0F0 0B0 0REDUCE_GRAD0 0REDUCE_GRAD1 0REDUCE_GRAD2 0REDUCE_GRAD3");
  times.reductions = {{Seconds(0.0), Seconds(0.125)}};
  const CriticalPath fast = path_of(schedule, times);
  EXPECT_EQ(fast.term(PathTerm::kBackward), Seconds(2.0));
  EXPECT_EQ(fast.term(PathTerm::kReductions), Seconds(0.125));
  EXPECT_EQ(actions_of(schedule, fast), "0F0 0B0 0REDUCE_GRAD3");
}

// By hand: the pair lasts 1 + 2 s, and both of its actions are on the path.
TEST(CriticalPath, DividesAPairAmongItsActions) {
  const CriticalPath path =
      path_of(complete_schedule({"0F0 (0F1;0B0) 0B1"}, 2), times_of_path_tests());
  EXPECT_EQ(path.term(PathTerm::kForward), Seconds(2.0));
  EXPECT_EQ(path.term(PathTerm::kBackward), Seconds(4.0));
  EXPECT_EQ(path.steps.size(), 3U);
}

// By hand; a gather takes half of the compute beside it. A pass of 4 s begins with the first
// bucket, at 0.5 s, loses a quarter of a second to the second gather and does not wait for it: all
// of it is on the path. A pass of 1 s begins at 2 s, has done its half at 3 s, and waits until 4 s
// for the second bucket: the path has both gathers and its other half.
TEST(CriticalPath, HasAPassThatGathersSlowDownButDoNotHoldUp) {
  const Schedule schedule = complete_schedule({"0UNSHARD0 0UNSHARD1 0F0 0B0"}, 1);
  StepTimes times = times_of_path_tests();
  times.overlap_slowdown = 0.5;
  times.stages = {stage_durations(Seconds(4.0), Seconds(1.0), Seconds(1.0))};
  times.gathers = {{Seconds(0.0), Seconds(0.5)}};
  const CriticalPath slowed = path_of(schedule, times);
  EXPECT_EQ(slowed.term(PathTerm::kGathers), Seconds(0.5));
  EXPECT_EQ(slowed.term(PathTerm::kForward), Seconds(4.25));
  EXPECT_EQ(actions_of(schedule, slowed), "0UNSHARD0 0F0 0B0");
  times.stages = {stage_durations(Seconds(1.0), Seconds(1.0), Seconds(1.0))};
  times.gathers = {{Seconds(0.0), Seconds(2.0)}};
  const CriticalPath held_up = path_of(schedule, times);
  EXPECT_EQ(held_up.term(PathTerm::kGathers), Seconds(4.0));
  EXPECT_EQ(held_up.term(PathTerm::kForward), Seconds(0.5));
  EXPECT_EQ(actions_of(schedule, held_up), "0UNSHARD0 0UNSHARD1 0F0 0B0");
}

/// Expects every step of the path to start when the one before ends, except for implied messages.
/// Each step must be part of an action's span, and the terms must add up.
void expect_chain(const Schedule& schedule, const StepTimes& times) {
  const Timeline timeline = simulate_step(schedule, times);
  const CriticalPath path = critical_path(schedule, times, timeline);
  const double makespan = timeline.times.makespan().value();
  const double tolerance = 1e-9 * makespan;
  double sum = 0.0;
  for (const Seconds term : path.terms) {
    RC_ASSERT(term.value() >= -tolerance);
    sum += term.value();
  }
  RC_ASSERT(std::abs(sum - makespan) <= tolerance);
  RC_ASSERT(std::abs(path.term(PathTerm::kWaiting).value()) <= tolerance);
  double end = 0.0;
  for (const PathStep& step : path.steps) {
    RC_ASSERT(std::abs(step.start.value() - end) <= tolerance);
    const Span& span = timeline.spans[step.rank][step.position];
    RC_ASSERT(step.start >= span.start);
    RC_ASSERT(step.end <= span.end);
    end = step.end.value();
  }
}

TEST(CriticalPath, IsAChainThatAddsUpToTheMakespan) {
  EXPECT_TRUE(rc::check([] {
    RandomStep step = random_step();
    if (*rc::gen::arbitrary<bool>()) {
      step.times.shares_links = true;
      step.times.overlap_slowdown = *rc::gen::element(0.2, 1.0);
    }
    expect_chain(step.schedule, step.times);
  }));
}

TEST(CriticalPath, AddsUpWhereMessagesAreImplied) {
  EXPECT_TRUE(rc::check([] {
    const RandomStep step = random_step();
    const Timeline timeline = simulate_step(step.compute, step.times);
    const CriticalPath path = critical_path(step.compute, step.times, timeline);
    double sum = 0.0;
    for (const Seconds term : path.terms) {
      sum += term.value();
    }
    const double makespan = timeline.times.makespan().value();
    RC_ASSERT(std::abs(sum - makespan) <= 1e-9 * makespan);
    RC_ASSERT(std::abs(path.term(PathTerm::kWaiting).value()) <= 1e-9 * makespan);
  }));
}

/// Returns the exact effect of slowing one rank by `factor`: the step's time over that without,
/// less 1.
double slowdown_effect(const Schedule& schedule, const StepTimes& times, int rank, double factor) {
  StepTimes slower = times;
  slower.stragglers.push_back({.rank = rank, .factor = factor});
  const Seconds before = simulate_step_times(schedule, times).makespan();
  const Seconds after = simulate_step_times(schedule, slower).makespan();
  return before > Seconds(0.0) ? after / before - 1.0 : 0.0;
}

// By hand: two ranks with three of eight seconds each on the path.
TEST(Sensitivity, IsTheShareOfARanksComputeOfThePath) {
  StepTimes times = times_of_path_tests();
  times.within_node = {Seconds(0.5), Seconds(0.5)};
  const Schedule schedule =
      complete_schedule({"0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0"}, 1);
  EXPECT_EQ(slowdown_elasticities(path_of(schedule, times)), (std::vector<double>{0.375, 0.375}));
  EXPECT_DOUBLE_EQ(slowdown_effect(schedule, times, 1, 1.5), 1.5 / 8.0);
}

// The makespan is a maximum of sums that are linear in a rank's factor, and so convex. The slope of
// a critical path thus lies between the difference quotients on both sides. If these are equal, the
// path's slope equals them.
TEST(Sensitivity, IsTheSlopeOfSimulationsWithTheRankALittleSlowerAndFaster) {
  int num_smooth = 0;
  EXPECT_TRUE(rc::check([&] {
    const RandomStep step = random_step();
    const std::vector<double> elasticities =
        slowdown_elasticities(path_of(step.schedule, step.times));
    constexpr double step_size = 1e-6;
    constexpr double tolerance = 1e-7;  // of a quotient of doubles: 1e-13/1e-6
    for (int rank = 0; rank < step.schedule.pp; ++rank) {
      const double above =
          slowdown_effect(step.schedule, step.times, rank, 1.0 + step_size) / step_size;
      const double below =
          -slowdown_effect(step.schedule, step.times, rank, 1.0 - step_size) / step_size;
      RC_ASSERT(elasticities[rank] >= below - tolerance);
      RC_ASSERT(elasticities[rank] <= above + tolerance);
      num_smooth += above - below < tolerance ? 1 : 0;
    }
  }));
  EXPECT_GT(num_smooth, 50);
}

}  // namespace
}  // namespace ptdp
