// Tests of the picture of a search's candidates.
#include "planner/report/sections/candidate_sections.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <numeric>
#include <set>

#include "planner/search/exhaustive_search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

/// A job with some hundred candidates.
class CandidatesSection : public testing::Test {
 protected:
  const PlanningResult result =
      plan_training(selene_2021("3.6B", 96), {.gpus = 12, .space = {.vpp = IntegerRanges(1)}});
  const ReportSection section = candidates_section(result);
  const ScatterView& view = std::get<ScatterView>(section.view);
};

TEST_F(CandidatesSection, ShowsEveryCandidateOfASmallJobOnce) {
  std::multiset<std::string> shown;
  for (const ScatterGroup& group : view.groups) {
    for (const ScatterPoint& point : group.points) {
      shown.insert(point.name);
    }
  }
  std::multiset<std::string> expected;
  for (const Candidate& candidate : exhaustive_search(result.scenario, result.options)) {
    expected.insert(to_string(candidate.config));
  }
  EXPECT_EQ(shown, expected);
  EXPECT_LE(shown.size(), kMostCandidatePoints);
  ASSERT_EQ(view.groups.front().points.size(), result.plans.size());
  for (std::size_t i = 0; i < result.plans.size(); ++i) {
    EXPECT_EQ(view.groups.front().points[i].name, to_string(result.plans[i].config));
  }
}

TEST_F(CandidatesSection, HasPointsWhosePartsAddUpToTheirTime) {
  for (const ScatterGroup& group : view.groups) {
    for (const ScatterPoint& point : group.points) {
      ASSERT_EQ(point.parts.size(), view.parts.size());
      EXPECT_NEAR(std::accumulate(point.parts.begin(), point.parts.end(), 0.0), point.y,
                  1e-9 * point.y);
    }
  }
}

TEST_F(CandidatesSection, SaysByHowMuchAPointLosesAgainstTheChosenPlan) {
  ASSERT_TRUE(view.reference);
  EXPECT_EQ(view.reference->name, to_string(result.plans.front().config));
  EXPECT_DOUBLE_EQ(view.reference->y, result.plans.front().predicted.iteration_time.value.value());
  for (const ScatterPoint& point : view.groups.back().points) {
    EXPECT_NEAR(std::stod(point.note), 100.0 * (point.y / view.reference->y - 1.0), 0.051);
  }
}

}  // namespace
}  // namespace ptdp
