// Tests of the report of a run made up by hand.
#include "planner/report/answers/run_page.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "tests/planner/report/answers/sections_of.h"
#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

RunReport run_made_up() {
  RunReport run{.plan = plan_of_39b()};
  run.execution = {.first_step = 100, .steps = 3, .warm_up = 1, .basis = "Predicted for host"};
  run.predicted_time = {.value = Seconds(1.5), .low = Seconds(1.25), .high = Seconds(1.75)};
  run.measured_time = Seconds(2.0);
  run.fastest = Seconds(1.9);
  run.slowest = Seconds(2.2);
  run.terms = {{.name = "matmul",
                .time = {Seconds(1.0), Seconds(1.25)},
                .low = Seconds(0.9),
                .high = Seconds(1.1)},
               {.name = "bubble", .time = {Seconds(0.5), Seconds(0.75)}}};
  run.actions = {{"F", 0, 8, {Seconds(0.010), Seconds(0.020)}}};
  run.memory = {{.size = {Bytes(3 * kGibi), Bytes(2 * kGibi)}}};
  run.traffic = {{"data", "all-reduce", {3'501'056, 3'501'056}},
                 {"tensor", "all-reduce", {3'501'056, 3'501'057}}};
  run.losses = {6.9, 6.5, 5.1};
  return run;
}

TEST(RunPage, SetsMeasuredBesidePredicted) {
  const Report report = run_page(run_made_up(), {});
  EXPECT_EQ(report.sentence,
            "An iteration took 2 s (1.9 s to 2.2 s over 2 steps); predicted were 1.5 s (-25.0 %), "
            "1.25 s to 1.75 s with 90 %.");
  const auto& terms = std::get<StackedView>(section_named(report, "terms").view);
  EXPECT_THAT(terms.categories, ElementsAre("matmul", "bubble"));
  EXPECT_THAT(terms.columns[0].values, ElementsAre(1.0, 0.5));
  EXPECT_THAT(terms.columns[1].values, ElementsAre(1.25, 0.75));
  EXPECT_THAT(std::get<TableView>(section_named(report, "terms-table").view).rows.front(),
              ElementsAre("matmul", "1 s", "1.25 s", "-20.0 %", "900 ms to 1.1 s"));
  EXPECT_THAT(std::get<TableView>(section_named(report, "actions").view).rows.front(),
              ElementsAre("F", "1", "8", "10 ms", "20 ms", "-50.0 %"));
  EXPECT_THAT(std::get<TableView>(section_named(report, "memory").view).rows.front(),
              ElementsAre("0", "3.00 GiB", "2.00 GiB", "+50.0 %"));
  EXPECT_THAT(std::get<TableView>(section_named(report, "traffic").view).rows,
              ElementsAre(ElementsAre("data all-reduce", "3,501,056", "3,501,056", "equal"),
                          ElementsAre("tensor all-reduce", "3,501,056", "3,501,057", "differs")));
}

TEST(RunPage, DrawsLossAndTimesFromTheFirstStepOn) {
  const Report report = run_page(run_made_up(), {.step_seconds = {3.0, 2.0, 2.1}});
  const auto& loss = std::get<CurvesView>(section_named(report, "loss").view);
  EXPECT_THAT(loss.curves[0].x, ElementsAre(100.0, 101.0, 102.0));
  EXPECT_THAT(loss.curves[0].y, ElementsAre(6.9, 6.5, 5.1));
  const auto& steps = std::get<CurvesView>(section_named(report, "steps").view);
  EXPECT_THAT(steps.curves[0].y, ElementsAre(3.0, 2.0, 2.1));
  EXPECT_THAT(steps.curves[1].y, ElementsAre(1.5, 1.5));
  EXPECT_THAT(steps.curves[1].low, ElementsAre(1.25, 1.25));
  EXPECT_EQ(steps.marks[0].value, 101.0);  // the first step warms up
}

TEST(RunPage, DrawsTheRecordedStepBelowThePredictedOne) {
  const Plan plan = plan_of_39b();
  const PlanSimulation simulation = simulate_plan(plan, {});
  const Report report = run_page(
      run_made_up(),
      {.step = RecordedStep{.schedule = simulation.schedule, .timeline = simulation.timeline},
       .predicted = simulation});
  const auto& view = std::get<TimelineView>(section_named(report, "timeline").view);
  ASSERT_EQ(view.schedules.size(), 2U);
  EXPECT_EQ(view.schedules[0].name, "predicted");
  EXPECT_EQ(view.schedules[1].name, "measured");
  EXPECT_EQ(view.schedules[1].bubble_s, 0.75);
}

TEST(RunPage, SaysWhereNothingWasPredicted) {
  RunReport run = run_made_up();
  run.predicted_time = {};
  const Report report = run_page(run, {});
  EXPECT_EQ(report.sentence,
            "An iteration took 2 s (1.9 s to 2.2 s over 2 steps); nothing was predicted of it.");
  EXPECT_EQ(std::get<StackedView>(section_named(report, "terms").view).columns.size(), 1U);
}

TEST(RunSetPage, DrawsARunOverItsPrediction) {
  RunSet set;
  set.runs = {{.name = "run.json", .report = run_made_up()}};
  set.errors = {.count = 1, .mean_absolute = 0.25, .max_absolute = 0.25, .bias = -0.25};
  set.terms = {{.name = "matmul", .share = 0.5, .bias = -0.125, .mean_absolute = 0.125}};
  const Report report = run_set_page(set);
  EXPECT_EQ(report.sentence,
            "Predictions are off by 25.0 % on average (bias -25.0 %), and by 25.0 % at most.");
  const auto& view = std::get<ScatterView>(section_named(report, "runs").view);
  EXPECT_EQ(view.groups[0].points[0].x, 2.0);
  EXPECT_EQ(view.groups[0].points[0].y, 1.5);
}

}  // namespace
}  // namespace ptdp
