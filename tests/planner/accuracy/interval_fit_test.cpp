// Tests of predictions whose group is held out.
#include "planner/accuracy/interval_fit.h"

#include <gtest/gtest.h>

#include "tests/planner/costed_runs.h"

namespace ptdp {
namespace {

/// Returns `count` rows of a ratio.
void add_rows(std::vector<CostedRun>& runs, const std::string& stack, const std::string& group,
              double ratio, int count) {
  for (int i = 0; i < count; ++i) {
    runs.push_back(run_of(stack, group, ratio));
  }
}

/// Returns 20 rows of 1.2 and 20 of 1.5 on one stack, and 20 of 1.3 on another.
std::vector<CostedRun> three_groups() {
  std::vector<CostedRun> runs;
  add_rows(runs, "megatron-core-2024", "a", 1.2, 20);
  add_rows(runs, "megatron-core-2024", "b", 1.5, 20);
  add_rows(runs, "megatron-lm-2021", "c", 1.3, 20);
  return runs;
}

// Without b, the stack of b has the 1.2 of a alone. Without c, the stack of c has no run at all,
// but its kind of program has.
TEST(HoldGroupsOut, KnowsNothingOfTheGroup) {
  const std::vector<HeldOutRun> runs = hold_groups_out(three_groups());
  ASSERT_EQ(runs.size(), 60U);
  EXPECT_EQ(runs[0].nearest, NearestRuns::kScope);
  EXPECT_NEAR(runs[0].error, 1.5 / 1.2 - 1.0, 0.02);
  EXPECT_NEAR(runs[20].error, 1.2 / 1.5 - 1.0, 0.02);
  EXPECT_EQ(runs[40].nearest, NearestRuns::kProgram);
  EXPECT_GT(runs[40].half_width, runs[0].half_width);
  EXPECT_EQ(with_nearest(runs, NearestRuns::kProgram).size(), 20U);
}

// By hand: groups count alike, however many runs they have; widths are those of all runs.
TEST(CoverageOf, IsTheMeanOfTheGroups) {
  const HeldOutCoverage coverage =
      coverage_of({{.group = "a", .error = 0.1, .half_width = 0.1, .is_inside = true},
                   {.group = "a", .error = -0.3, .half_width = 0.2, .is_inside = false},
                   {.group = "b", .error = 0.2, .half_width = 0.4, .is_inside = true}});
  EXPECT_EQ(coverage.num_runs, 3);
  EXPECT_EQ(coverage.num_groups, 2);
  EXPECT_NEAR(coverage.inside, 0.75, 1e-12);
  EXPECT_NEAR(coverage.median_half_width, 0.2, 1e-12);
  EXPECT_NEAR(coverage.mean_absolute, 0.2, 1e-12);
  EXPECT_NEAR(coverage.bias, 0.05, 1e-12);
  EXPECT_EQ(coverage_of({}).num_groups, 0);
}

}  // namespace
}  // namespace ptdp
