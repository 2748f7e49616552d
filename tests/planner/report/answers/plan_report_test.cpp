// Tests of the report of a plan as a whole.
#include "planner/report/answers/plan_report.h"

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "planner/report/answers/report_parts.h"
#include "planner/report/answers/simulation_report.h"
#include "tests/planner/report/answers/sections_of.h"
#include "tests/planner/report/sections/plans.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsSupersetOf;
using testing::MatchesRegex;

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
                          "layer", "traffic", "names", "remarks"));
  EXPECT_THAT(std::get<TextView>(report.sections.back().view).paragraphs,
              ElementsAre("a remark", "Next\n  ptdp-plan show"));
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
  const Report report =
      planning_report(result, {}, {.remarks = {"a remark"}, .next = "ptdp-plan show"});
  EXPECT_THAT(report.sentence, HasSubstr(to_string(result.plans.front().config)));
  EXPECT_THAT(ids_of(report), IsSupersetOf({"figures", "time", "published"}));
  // What changes a mind stands before the pictures, what to do with it behind them.
  EXPECT_EQ(report.sections[1].id, "remarks");
  EXPECT_EQ(std::get<TextView>(report.sections[1].view).paragraphs.front(), "a remark");
  EXPECT_EQ(std::get<TextView>(report.sections.back().view).paragraphs.front(),
            "Next\n  ptdp-plan show");
}

// A rank of half the speed is on the report, and its waterfall of the path adds up to the makespan.
TEST(Paragraphs, KeepWhatIsIndentedBelowThem) {
  EXPECT_THAT(paragraphs_of("\nTwo ways\n  1. one\n     and more\n  2. two\n\n  alone\nlast\n"),
              ElementsAre("Two ways\n  1. one\n     and more\n  2. two", "alone", "last"));
}

// By hand: of the schedules, 1F1B is the plan's, PipeDream has stale weights, and GPipe keeps all
// 64 microbatches of activations in flight.
TEST(SchedulesReport, TellsWhichSchedulesThePlanCanHave) {
  const Plan plan = plan_of_39b();
  std::vector<ScheduleComparison> rows = {{.schedule = "1f1b", .step = Seconds(3.0)},
                                          {.schedule = "pipedream", .step = Seconds(1.0)},
                                          {.schedule = "gpipe", .step = Seconds(3.5)},
                                          {.schedule = "zb-v", .step = Seconds(2.0)},
                                          {.schedule = "interleaved", .step = Seconds(2.5)}};
  for (ScheduleComparison& row : rows) {
    row.fits = row.schedule != "gpipe";
    row.changes_semantics = row.schedule == "pipedream";
    row.is_run_by_stack = row.schedule != "zb-v";
  }
  std::map<std::string, Tint> tints;
  const Report report = schedules_report(plan, rows);
  for (const Bar& bar : std::get<BarsView>(report.sections[0].view).bars) {
    tints[bar.name] = bar.tint;
  }
  EXPECT_EQ(tints["1f1b"], Tint::kCompute);
  EXPECT_EQ(tints["pipedream"], Tint::kIdle);
  EXPECT_EQ(tints["gpipe"], Tint::kIdle);
  EXPECT_EQ(tints["zb-v"], Tint::kPlain);
  EXPECT_EQ(tints["interleaved"], Tint::kCommunication);
}

TEST(SimulationReport, LeavesOutRanksThatCostNextToNothing) {
  const Plan plan = plan_of_39b();
  PlanSimulation simulation = simulate_plan(plan, {});
  simulation.elasticities = {0.001, 0.8, 0.0, 0.3, 0.002, 0.0, 0.0, 0.0};
  const Report report = simulation_report(plan, simulation, {});
  std::vector<std::string> names;
  for (const Bar& bar : std::get<BarsView>(report.sections[2].view).bars) {
    names.push_back(bar.name);
  }
  EXPECT_THAT(names, ElementsAre("rank 1", "rank 3"));
}

TEST(SchedulesReport, HasABarForEachScheduleThatThePlanCanHave) {
  const std::vector<ScheduleComparison> rows = {
      {.schedule = "1f1b",
       .step = Seconds(10.0),
       .bubble = Seconds(2.5),
       .fits = true,
       .is_run_by_stack = true},
      {.schedule = "interleaved", .conflict = "expects vpp 2 or more, got 1"},
      {.schedule = "zb-h1", .step = Seconds(8.0), .bubble = Seconds(0.8), .fits = true}};
  const Report report = schedules_report(plan_of_39b(), rows);
  EXPECT_THAT(report.sentence, HasSubstr("zb-h1 takes least: 8 s a step"));
  const auto& bars = std::get<BarsView>(report.sections[0].view);
  ASSERT_EQ(bars.bars.size(), 2U);
  EXPECT_EQ(bars.bars[0].name, "zb-h1");
  EXPECT_EQ(bars.bars[0].value, 8.0);
  const auto& table = std::get<TableView>(report.sections[1].view);
  ASSERT_EQ(table.rows.size(), 3U);
  EXPECT_THAT(table.rows[1], ElementsAre("1f1b", "1", "10 s", "25.0 %", testing::_, testing::_));
  EXPECT_EQ(table.rows[2].back(), "expects vpp 2 or more, got 1");
}

TEST(SimulationReport, SaysWhatTheOptionsChange) {
  const Plan plan = plan_of_39b();
  const SimulationOptions options{.stragglers = {{.rank = 3, .factor = 2.0}}};
  const PlanSimulation simulation = simulate_plan(plan, options);
  const Report report = simulation_report(plan, simulation, options);
  EXPECT_EQ(report.rests_on.front(), "Rank 3 takes 2 times as long to compute.");
  EXPECT_THAT(ids_of(report), ElementsAre("timeline", "critical-path", "slower-rank", "memory",
                                          "memory-over-time"));
  const auto& path = std::get<BarsView>(report.sections[1].view);
  double sum = 0.0;
  for (const Bar& bar : path.bars) {
    sum += bar.value;
  }
  EXPECT_NEAR(sum, simulation.timeline.times.makespan().value(), 1e-9 * sum);
}

}  // namespace
}  // namespace ptdp
