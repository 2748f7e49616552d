// Tests of pictures of memory against the plan's numbers and profiles made up by hand.
#include "planner/report/sections/memory_sections.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "planner/report/sections/drawn_points.h"
#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

TEST(MemoryByStage, HasTheColumnsOfThePlan) {
  const Plan plan = plan_of_39b();
  const ReportSection section = memory_by_stage(plan);
  const auto& view = std::get<StackedView>(section.view);
  ASSERT_EQ(view.columns.size(), 8U);
  ASSERT_EQ(view.categories.size(), kMemoryTerms.size());
  for (std::size_t stage = 0; stage < view.columns.size(); ++stage) {
    for (std::size_t term = 0; term < kMemoryTerms.size(); ++term) {
      EXPECT_NEAR(view.columns[stage].values[term] * kGibi,
                  (plan.memory.stages[stage].*kMemoryTerms.at(term).size).value(), 1.0);
    }
  }
  ASSERT_TRUE(view.limit);
  EXPECT_NEAR(view.limit->value, 80.0, 1e-9);
}

/// Returns a simulation of one rank that holds `samples` amounts, one a second.
PlanSimulation held_by_one_rank(const std::vector<double>& gibibytes) {
  PlanSimulation simulation;
  MemoryProfile profile;
  for (std::size_t i = 0; i < gibibytes.size(); ++i) {
    profile.samples.push_back({Seconds(static_cast<double>(i)), Bytes(gibibytes[i] * kGibi)});
  }
  simulation.memory = {profile};
  simulation.timeline.times.ranks = {{.end = Seconds(static_cast<double>(gibibytes.size()))}};
  return simulation;
}

TEST(MemoryOverTime, IsWhatARankHoldsUntilTheStepEnds) {
  const ReportSection section = memory_over_time(plan_of_39b(), held_by_one_rank({1.5, 3.0, 2.0}));
  const auto& view = std::get<CurvesView>(section.view);
  ASSERT_EQ(view.curves.size(), 1U);
  EXPECT_TRUE(view.curves[0].has_steps);
  EXPECT_EQ(view.curves[0].x, (std::vector<double>{0.0, 1.0, 2.0, 3.0}));
  EXPECT_EQ(view.curves[0].y, (std::vector<double>{1.5, 3.0, 2.0, 2.0}));
}

// 50,000 samples of a saw with one high tooth and one deep gap.
TEST(MemoryOverTime, KeepsPeaksAndLowsWhenItIsThinnedOut) {
  std::vector<double> gibibytes(50'000);
  for (std::size_t i = 0; i < gibibytes.size(); ++i) {
    gibibytes[i] = 10.0 + static_cast<double>(i % 7);
  }
  gibibytes[33'333] = 40.0;
  gibibytes[44'444] = 1.0;
  const ReportSection section = memory_over_time(plan_of_39b(), held_by_one_rank(gibibytes));
  const Curve& curve = std::get<CurvesView>(section.view).curves.front();
  EXPECT_LE(curve.x.size(), kMostCurvePoints + 1);
  EXPECT_TRUE(std::ranges::is_sorted(curve.x));
  const auto peak = std::ranges::max_element(curve.y) - curve.y.begin();
  EXPECT_EQ(curve.y[static_cast<std::size_t>(peak)], 40.0);
  EXPECT_NEAR(curve.x[static_cast<std::size_t>(peak)], 33'333.0, 0.5);
  EXPECT_EQ(*std::ranges::min_element(curve.y), 1.0);
}

TEST(MemoryOverTime, DrawsTheHeaviestOfManyRanks) {
  const Plan plan = plan_of_39b();
  const PlanSimulation simulation = simulate_plan(plan, {});
  const ReportSection section = memory_over_time(plan, simulation);
  const std::vector<Curve>& curves = std::get<CurvesView>(section.view).curves;
  EXPECT_LE(curves.size(), 4U);
  double peak = 0.0;
  for (const Curve& curve : curves) {
    peak = std::max(peak, *std::ranges::max_element(curve.y));
  }
  EXPECT_NEAR(peak * kGibi, plan.memory.peak().value(), 1e-3 * kGibi);
}

}  // namespace
}  // namespace ptdp
