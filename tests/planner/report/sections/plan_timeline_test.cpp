// Tests of which schedules stand beside a plan's, against the comparison of all schedules.
#include "planner/report/sections/plan_timeline.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

TEST(BestOtherSchedules, AreTheFastestThatThePlanCanHaveAndThatFit) {
  for (const Plan& plan : {plan_of_39b(), plan_of_39b(ScheduleKind::kInterleaved, 2)}) {
    std::vector<ScheduleComparison> rows = compare_schedules(plan, {});
    std::erase_if(rows, [&](const ScheduleComparison& row) {
      return !row.conflict.empty() || !row.fits || row.changes_semantics ||
             row.schedule == plan.schedule.generator;
    });
    std::ranges::stable_sort(rows, {}, &ScheduleComparison::step);
    const std::vector<Plan> others = best_other_schedules(plan, 2, 1);
    ASSERT_EQ(others.size(), 2U);
    EXPECT_EQ(others[0].schedule.generator, rows[0].schedule);
    EXPECT_NEAR(simulate_plan(others[1], {}).step / rows[1].step, 1.0, 0.02);
    EXPECT_NE(others[0].schedule.generator, others[1].schedule.generator);
  }
}

TEST(PlanTimeline, HasThePlansScheduleFirst) {
  const Plan plan = plan_of_39b();
  const PlanSimulation simulation = simulate_plan(plan, {});
  const std::vector<SimulatedPlan> others = simulate_plans(best_other_schedules(plan, 2, 1), {}, 1);
  const ReportSection section = plan_timeline(plan, simulation, others, 1);
  const auto& view = std::get<TimelineView>(section.view);
  EXPECT_EQ(view.num_ranks, 8);
  ASSERT_EQ(view.schedules.size(), 3U);
  EXPECT_EQ(view.schedules[0].name, "1f1b");
  EXPECT_EQ(view.schedules[0].end_s, simulation.timeline.times.makespan().value());
  EXPECT_EQ(view.schedules[0].bubble_s, simulation.bubble.value());
}

// 1F1B of 8 stages draws F and B of each microbatch, and with blocking messages two sends: 32 for
// each of 64; ten thousand times as many have no room.
TEST(PlanTimeline, OfTooManyActionsIsNotDrawn) {
  Plan plan = plan_of_39b();
  EXPECT_EQ(most_drawn_actions(plan), 4.0 * 8 * 64);
  EXPECT_TRUE(has_room_for_timeline(plan));
  plan.schedule.num_microbatches = 640'000;
  EXPECT_FALSE(has_room_for_timeline(plan));
  EXPECT_THAT(std::get<TextView>(undrawn_timeline(plan).view).paragraphs.front(),
              HasSubstr("20,480,000"));
}

}  // namespace
}  // namespace ptdp
