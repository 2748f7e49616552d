// Tests of the report of a plan as a whole.
#include "planner/report/answers/plan_report.h"

#include <gmock/gmock.h>

#include <set>

#include "planner/report/answers/simulation_report.h"
#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::MatchesRegex;

std::vector<std::string> ids_of(const Report& report) {
  std::vector<std::string> ids;
  for (const ReportSection& section : report.sections) {
    ids.push_back(section.id);
  }
  return ids;
}

TEST(PlanReport, SaysTheAnswerWithItsIntervalAndWhatItRestsOn) {
  const Plan plan = plan_of_39b();
  const Report report = plan_report(plan, {},
                                    {.assumptions = {"batch 64: the model's"},
                                     .remarks = {"a remark"},
                                     .next = "ptdp-plan show"});
  EXPECT_EQ(report.title, "39B on 64 GPUs");
  EXPECT_THAT(report.sentence, HasSubstr(to_string(plan.config)));
  EXPECT_THAT(report.sentence, MatchesRegex(".* With 90 % probability it takes .* s to .* s\\."));
  EXPECT_THAT(report.rests_on, Contains("Assumed: batch 64: the model's"));
  EXPECT_THAT(ids_of(report),
              ElementsAre("figures", "time", "timeline", "memory", "memory-over-time", "operations",
                          "layer", "traffic", "remarks"));
  EXPECT_THAT(std::get<TextView>(report.sections.back().view).paragraphs,
              ElementsAre("a remark", "Next: ptdp-plan show"));
}

TEST(PlanReport, HasSectionsOfNamesThatAddressesCanHave) {
  for (const Plan& plan : various_plans()) {
    const std::vector<std::string> ids = ids_of(plan_report(plan, {}, {}));
    EXPECT_EQ(std::set(ids.begin(), ids.end()).size(), ids.size());
    for (const std::string& id : ids) {
      EXPECT_THAT(id, MatchesRegex("[a-z-]+"));
    }
  }
}

TEST(PlanningReport, HasTheBestPlanAndPublishedRunsOfTheJob) {
  const SearchOptions options{.gpus = 512};
  const PlanningResult result = plan_training(selene_2021("39B"), options);
  ASSERT_FALSE(result.plans.empty());
  const Report report = planning_report(result, {}, {});
  EXPECT_THAT(report.sentence, HasSubstr(to_string(result.plans.front().config)));
  EXPECT_THAT(ids_of(report), IsSupersetOf({"figures", "time", "published"}));
}

// A rank of half the speed is on the report, and its waterfall of the path adds up to the makespan.
TEST(SimulationReport, SaysWhatTheOptionsChange) {
  const Plan plan = plan_of_39b();
  const SimulationOptions options{.stragglers = {{.rank = 3, .factor = 2.0}}};
  const PlanSimulation simulation = simulate_plan(plan, options);
  const Report report = simulation_report(plan, simulation, options);
  EXPECT_EQ(report.rests_on.front(), "Rank 3 takes 2 times as long to compute.");
  EXPECT_THAT(ids_of(report), ElementsAre("timeline", "critical-path", "slower-rank", "memory",
                                          "memory-over-time"));
  const BarsView& path = std::get<BarsView>(report.sections[1].view);
  double sum = 0.0;
  for (const Bar& bar : path.bars) {
    sum += bar.value;
  }
  EXPECT_NEAR(sum, simulation.timeline.times.makespan().value(), 1e-9 * sum);
}

}  // namespace
}  // namespace ptdp
