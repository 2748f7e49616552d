// Tests of predicted values over measured ones.
#include "planner/report/sections/comparison_view.h"

#include <gtest/gtest.h>

namespace ptdp {
namespace {

// By hand: measured 2 s and 8 s, predicted 3 s and 4 s. Of a prediction p a run may take 0.5·p to
// 2·p, so of a measured time m predictions of m/2 to m/0.5 are inside.
TEST(ComparisonView, HasTheDiagonalAndItsBand) {
  const ScatterView view = comparison_view(
      {"time", "s"},
      {{"a", {{.name = "run 1", .measured = 2.0, .predicted = 3.0}}},
       {"b", {{.name = "run 2", .note = "tp=2", .measured = 8.0, .predicted = 4.0}}}},
      {.low = 0.5, .high = 2.0});
  EXPECT_TRUE(view.x.is_log && view.y.is_log);
  ASSERT_EQ(view.groups.size(), 2U);
  EXPECT_EQ(view.groups[0].points[0].x, 2.0);
  EXPECT_EQ(view.groups[0].points[0].y, 3.0);
  EXPECT_EQ(view.groups[0].points[0].note, "+50.0 %");
  EXPECT_EQ(view.groups[1].points[0].note, "-50.0 %, tp=2");
  ASSERT_EQ(view.curves.size(), 1U);
  EXPECT_EQ(view.curves[0].x, (std::vector<double>{2.0, 8.0}));
  EXPECT_EQ(view.curves[0].y, view.curves[0].x);
  EXPECT_EQ(view.curves[0].low, (std::vector<double>{1.0, 4.0}));
  EXPECT_EQ(view.curves[0].high, (std::vector<double>{4.0, 16.0}));
}

TEST(ComparisonView, HasNoBandWithoutAnInterval) {
  const ScatterView view = comparison_view(
      {"time", "s"}, {{"a", {{.name = "run", .measured = 1.0, .predicted = 1.0}}}}, {});
  EXPECT_TRUE(view.curves[0].low.empty());
}

}  // namespace
}  // namespace ptdp
