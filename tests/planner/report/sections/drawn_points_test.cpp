// Tests of which points of long curves are drawn, and of curves over iterations.
#include "planner/report/sections/drawn_points.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "planner/report/sections/step_curves.h"

namespace ptdp {
namespace {

using testing::ElementsAre;

TEST(DrawnPoints, AreAllOfAShortCurve) {
  EXPECT_THAT(drawn_points({3.0, 1.0, 2.0}), ElementsAre(0U, 1U, 2U));
  EXPECT_TRUE(drawn_points({}).empty());
}

TEST(DrawnPoints, KeepEveryPeakOfALongCurve) {
  std::mt19937 random(7);
  std::vector<double> values(100'003);
  for (double& value : values) {
    value = static_cast<double>(random() % 1000);
  }
  values[41'234] = 5000.0;
  values[77'777] = -5000.0;
  const std::vector<std::size_t> places = drawn_points(values);
  EXPECT_LE(places.size(), kMostCurvePoints);
  EXPECT_TRUE(std::ranges::is_sorted(places));
  EXPECT_THAT(places, testing::IsSupersetOf({std::size_t{41'234}, std::size_t{77'777}}));
}

TEST(StepCurves, MarkWhereTheSteadyStateBegins) {
  const CurvesView view = curve_over_steps({.name = "loss"}, {{5, 6}, {2.0, 1.0}}, 6.0);
  EXPECT_THAT(view.curves[0].x, ElementsAre(5.0, 6.0));
  EXPECT_THAT(view.curves[0].y, ElementsAre(2.0, 1.0));
  EXPECT_EQ(view.marks[0].value, 6.0);
}

TEST(StepCurves, HaveALogarithmicAxisWhereAWarmUpWouldHideTheRest) {
  const Estimate<Seconds> predicted{Seconds(1.0), Seconds(0.5), Seconds(2.0)};
  const CurvesView slow = times_over_steps({{1, 2, 3}, {9.0, 2.0, 2.0}}, predicted, 2.0);
  EXPECT_TRUE(slow.y.is_log);
  EXPECT_THAT(slow.curves[1].low, ElementsAre(0.5, 0.5));
  const CurvesView even = times_over_steps({{1, 2, 3}, {7.0, 2.0, 2.0}}, std::nullopt, 2.0);
  EXPECT_FALSE(even.y.is_log);
  EXPECT_EQ(even.curves.size(), 1U);
}

}  // namespace
}  // namespace ptdp
