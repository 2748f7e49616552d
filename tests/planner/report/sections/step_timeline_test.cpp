// Tests of packed timelines: unpacked, they are the steps that went in.
#include "planner/report/sections/step_timeline.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "planner/plan/plan_simulation.h"
#include "tests/planner/report/sections/plans.h"
#include "tests/planner/report/unpacked_numbers.h"

namespace ptdp {
namespace {

/// An action as a page draws it.
struct UnpackedAction {
  double start = 0.0;
  double end = 0.0;
  std::string kind;
  int microbatch = 0;
  int chunk = 0;
};

/// Returns the actions of all ranks.
std::vector<std::vector<UnpackedAction>> unpacked_actions(const TimelineView& view,
                                                          const PackedTimeline& timeline) {
  std::size_t total = 0;
  for (const int count : timeline.num_actions) {
    total += static_cast<std::size_t>(count);
  }
  const std::vector<std::int32_t> numbers = unpacked(timeline.actions, 5 * total);
  std::vector<std::vector<UnpackedAction>> ranks;
  std::size_t next = 0;
  for (const int count : timeline.num_actions) {
    std::vector<UnpackedAction>& rank = ranks.emplace_back();
    double end = 0.0;
    for (int i = 0; i < count; ++i, ++next) {
      UnpackedAction action{.start = end + timeline.tick_s * numbers[next]};
      end = action.start + timeline.tick_s * numbers[total + next];
      action.end = end;
      action.kind = view.kinds[static_cast<std::size_t>(numbers[2 * total + next])].letter;
      action.microbatch = numbers[3 * total + next];
      action.chunk = numbers[4 * total + next];
      rank.push_back(action);
    }
  }
  return ranks;
}

DrawnStep drawn_step(const PlanSimulation& simulation) {
  return {.name = "simulated",
          .schedule = simulation.schedule,
          .timeline = simulation.timeline,
          .messages = simulation.times.messages,
          .data = simulation.times.data,
          .critical_path = &simulation.critical_path};
}

/// Letters of passes as a page shows them.
const std::map<ActionKind, std::string> kLetters = {{ActionKind::kForward, "F"},
                                                    {ActionKind::kBackward, "B"},
                                                    {ActionKind::kInputGradient, "I"},
                                                    {ActionKind::kWeightGradient, "W"},
                                                    {ActionKind::kRecompute, "R"}};

// Starts and ends lie within a tick of the simulation's; passes have its microbatches and chunks.
TEST(StepTimeline, UnpacksToTheSimulatedPasses) {
  for (const Plan& plan : {plan_of_39b(), plan_of_39b(ScheduleKind::kInterleaved, 2),
                           plan_of_39b(ScheduleKind::kZbH1), plan_of_39b(ScheduleKind::kZbV, 2)}) {
    const PlanSimulation simulation = simulate_plan(plan, {});
    const TimelineView view = step_timeline({drawn_step(simulation)}, 2);
    const PackedTimeline& timeline = view.schedules.front();
    const auto ranks = unpacked_actions(view, timeline);
    ASSERT_EQ(ranks.size(), 8U);
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      std::size_t next = 0;
      for (std::size_t i = 0; i < simulation.schedule.orders[rank].size(); ++i) {
        const Action& action = simulation.schedule.orders[rank][i];
        if (!is_compute(action.kind)) {
          continue;
        }
        const std::string& letter = kLetters.at(action.kind);
        while (next < ranks[rank].size() && ranks[rank][next].kind != letter) {
          ++next;  // a message or a collective
        }
        ASSERT_LT(next, ranks[rank].size());
        const UnpackedAction& drawn = ranks[rank][next++];
        const Span& span = simulation.timeline.spans[rank][i];
        ASSERT_NEAR(drawn.start, span.start.value(), timeline.tick_s);
        ASSERT_NEAR(drawn.end, span.end.value(), timeline.tick_s);
        ASSERT_EQ(drawn.microbatch, action.microbatch);
        ASSERT_EQ(drawn.chunk, action.stage / 8);
      }
    }
  }
}

// By hand: a reduction of 1.5 s to 4 s runs behind B from 2 s to 3 s, so half a second shows before
// it and one second after it.
TEST(StepTimeline, ShowsCollectivesWhereTheRankWouldElseWait) {
  const Schedule schedule{.name = "made up",
                          .orders = {{{.kind = ActionKind::kForward},
                                      {.kind = ActionKind::kReduceGradients},
                                      {.kind = ActionKind::kBackward}}}};
  Timeline timeline;
  timeline.times.ranks = {{.end = Seconds(4.0)}};
  timeline.spans = {
      {{Seconds(0.0), Seconds(1.0)}, {Seconds(1.5), Seconds(4.0)}, {Seconds(2.0), Seconds(3.0)}}};
  const TimelineView view =
      step_timeline({{.name = "step", .schedule = schedule, .timeline = timeline}}, 2);
  const auto rank = unpacked_actions(view, view.schedules.front()).front();
  ASSERT_EQ(rank.size(), 4U);
  const auto expect = [&](std::size_t i, const char* kind, double start, double end) {
    EXPECT_EQ(rank[i].kind, kind);
    EXPECT_NEAR(rank[i].start, start, 1e-4);
    EXPECT_NEAR(rank[i].end, end, 1e-4);
  };
  expect(0, "F", 0.0, 1.0);
  expect(1, "D", 1.5, 2.0);
  EXPECT_EQ(rank[1].microbatch, -1);
  expect(2, "B", 2.0, 3.0);
  expect(3, "D", 3.0, 4.0);
}

TEST(StepTimeline, DrawsAnOverlappedPairAsOneAction) {
  const Schedule schedule{
      .name = "made up",
      .orders = {{{.kind = ActionKind::kForward, .microbatch = 3, .overlaps_next = true},
                  {.kind = ActionKind::kBackward, .microbatch = 1}}}};
  Timeline timeline;
  timeline.times.ranks = {{.end = Seconds(2.0)}};
  timeline.spans = {{{Seconds(0.5), Seconds(2.0)}, {Seconds(0.5), Seconds(2.0)}}};
  const TimelineView view =
      step_timeline({{.name = "step", .schedule = schedule, .timeline = timeline}}, 2);
  const auto rank = unpacked_actions(view, view.schedules.front()).front();
  ASSERT_EQ(rank.size(), 1U);
  EXPECT_EQ(rank[0].kind, "FB");
  EXPECT_EQ(rank[0].microbatch, 3);
  EXPECT_NEAR(rank[0].start, 0.5, 1e-4);
  EXPECT_NEAR(rank[0].end, 2.0, 1e-4);
}

// The path's actions follow one another; each is the one of that start.
TEST(StepTimeline, PointsToTheActionsOfTheCriticalPath) {
  const PlanSimulation simulation = simulate_plan(plan_of_39b(), {});
  const TimelineView view = step_timeline({drawn_step(simulation)}, 2);
  const PackedTimeline& timeline = view.schedules.front();
  const auto ranks = unpacked_actions(view, timeline);
  ASSERT_GT(timeline.critical_path.size(), 64U);
  std::size_t next = 0;
  for (const PathStep& step : simulation.critical_path.steps) {
    const Action& action =
        simulation.schedule.orders[static_cast<std::size_t>(step.rank)][step.position];
    if (!is_compute(action.kind)) {
      continue;
    }
    while (next < timeline.critical_path.size() &&
           ranks[static_cast<std::size_t>(timeline.critical_path[next].first)]
                [static_cast<std::size_t>(timeline.critical_path[next].second)]
                    .kind != kLetters.at(action.kind)) {
      ++next;
    }
    ASSERT_LT(next, timeline.critical_path.size());
    const auto [rank, index] = timeline.critical_path[next++];
    ASSERT_EQ(rank, step.rank);
    ASSERT_NEAR(ranks[static_cast<std::size_t>(rank)][static_cast<std::size_t>(index)].end,
                step.end.value(), timeline.tick_s);
  }
}

}  // namespace
}  // namespace ptdp
