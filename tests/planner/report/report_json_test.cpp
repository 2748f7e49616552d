// Tests of ptdp.report/1: the document of a small report, written down by hand.
#include <gmock/gmock.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "cost_model/error.h"
#include "planner/report/report.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

std::string view_of(View view) {
  Report report;
  report.sections = {{"it", "It", "", std::move(view)}};
  return nlohmann::ordered_json::parse(to_json(report))["sections"][0]["view"].dump();
}

TEST(ReportJson, HoldsWhatTheReportHolds) {
  Report report;
  report.title = "T";
  report.sentence = "S.";
  report.rests_on = {"a", "b"};
  report.command = "ptdp-plan";
  report.sections = {{"it", "It", "So.", TextView{{"p"}}}};
  EXPECT_EQ(to_json(report), R"({
  "schema": "ptdp.report/1",
  "tool_version": ")" PTDP_VERSION R"(",
  "title": "T",
  "sentence": "S.",
  "rests_on": [
    "a",
    "b"
  ],
  "command": "ptdp-plan",
  "sections": [
    {
      "id": "it",
      "title": "It",
      "note": "So.",
      "view": {
        "kind": "text",
        "paragraphs": [
          "p"
        ]
      }
    }
  ]
}
)");
}

TEST(ReportJson, HasTheTotalOfBarsAndTheirIntervalsWhereTheyAreKnown) {
  BarsView view{.unit = "s", .is_waterfall = true};
  view.bars = {{.name = "a", .value = 1.5, .tint = Tint::kWaste},
               {.name = "b", .value = 2, .low = 1.0, .high = 3.0, .note = "n"}};
  view.total = Bar{.name = "all", .value = 3.5};
  EXPECT_EQ(view_of(view),
            R"({"kind":"bars","unit":"s","is_waterfall":true,"bars":[)"
            R"({"name":"a","value":1.5,"tint":"waste"},)"
            R"({"name":"b","value":2.0,"tint":"plain","low":1.0,"high":3.0,"note":"n"}],)"
            R"("total":{"name":"all","value":3.5,"tint":"plain"}})");
}

TEST(ReportJson, SaysWhatTintsMeanWhereThatIsNotTheUsual) {
  BarsView view{.unit = "s"};
  view.meanings = {{Tint::kIdle, "not run"}};
  EXPECT_EQ(view_of(view), R"({"kind":"bars","unit":"s","is_waterfall":false,"bars":[],)"
                           R"("meanings":[{"tint":"idle","meaning":"not run"}]})");
}

TEST(ReportJson, HasEachPictureOfAChoice) {
  ChoicesView view;
  view.choices = {{.name = "a", .note = "n", .picture = BarsView{.unit = "s"}},
                  {.name = "b", .picture = TableView{.columns = {"c"}}}};
  EXPECT_EQ(
      view_of(view),
      R"({"kind":"choices","choices":[{"name":"a","note":"n","view":{"kind":"bars","unit":"s",)"
      R"("is_waterfall":false,"bars":[]}},{"name":"b","view":{"kind":"table","columns":["c"],)"
      R"("rows":[]}}]})");
}

TEST(ReportJson, HasRowsOfATableAsObjects) {
  EXPECT_EQ(view_of(TableView{.columns = {"c", "d"}, .rows = {{"1", "2"}, {"3", "4"}}}),
            R"({"kind":"table","columns":["c","d"],"rows":[{"cells":["1","2"]},)"
            R"({"cells":["3","4"]}]})");
}

TEST(ReportJson, HasTheLimitOfColumns) {
  StackedView view{.x = {.name = "stage"}, .y = {.name = "memory", .unit = "GiB"}};
  view.categories = {"weights", "rest"};
  view.columns = {{.name = "0", .values = {1.0, 2.0}}};
  view.limit = Limit{.name = "capacity", .value = 80};
  EXPECT_EQ(view_of(view),
            R"({"kind":"stacked","x":{"name":"stage","unit":"","is_log":false},)"
            R"("y":{"name":"memory","unit":"GiB","is_log":false},"categories":["weights","rest"],)"
            R"("columns":[{"name":"0","values":[1.0,2.0]}],)"
            R"("limit":{"name":"capacity","value":80.0}})");
}

TEST(ReportJson, HasBandsOfCurvesWhereTheyAreKnown) {
  CurvesView view{.x = {.name = "GPUs", .is_log = true}, .y = {.name = "rate"}};
  view.curves = {{.name = "a", .x = {1, 2}, .y = {3, 4}, .low = {2, 3}, .high = {4, 5}},
                 {.name = "b", .x = {1}, .y = {9}, .low = {}, .high = {}, .has_steps = true}};
  view.limits = {{.name = "most", .value = 10}};
  view.marks = {{.name = "from", .value = 1}};
  EXPECT_EQ(view_of(view),
            R"({"kind":"curves","x":{"name":"GPUs","unit":"","is_log":true},)"
            R"("y":{"name":"rate","unit":"","is_log":false},"curves":[)"
            R"({"name":"a","x":[1.0,2.0],"y":[3.0,4.0],"low":[2.0,3.0],"high":[4.0,5.0],)"
            R"("has_steps":false},{"name":"b","x":[1.0],"y":[9.0],"has_steps":true}],)"
            R"("limits":[{"name":"most","value":10.0}],"marks":[{"name":"from","value":1.0}]})");
}

TEST(ReportJson, HasPartsOfPointsWhereTheyAreKnown) {
  ScatterView view{.x = {.name = "time", .unit = "s"}, .y = {.name = "memory", .unit = "GiB"}};
  view.groups = {
      {.name = "fits", .points = {{.x = 1, .y = 2, .name = "p", .note = "", .parts = {1}}}}};
  view.parts = {"bubble"};
  view.part_unit = "s";
  view.reference = ScatterPoint{.x = 0.5, .y = 3, .name = "best", .note = "it"};
  EXPECT_EQ(
      view_of(view),
      R"({"kind":"scatter","x":{"name":"time","unit":"s","is_log":false},)"
      R"("y":{"name":"memory","unit":"GiB","is_log":false},"groups":[{"name":"fits","points":)"
      R"([{"x":1.0,"y":2.0,"name":"p","parts":[1.0]}]}],"curves":[],"parts":["bubble"],)"
      R"("part_unit":"s","reference":{"x":0.5,"y":3.0,"name":"best","note":"it"}})");
}

TEST(ReportJson, HasNoTimeOfAStepUnderWhichNothingFits) {
  FlipsView view{.base_s = 1.5};
  view.inputs = {
      {.name = "memory",
       .steps = {{.change = -0.5, .winner = ""},
                 {.change = 0.5, .time_s = 1.0, .same_s = 2.0, .winner = "q", .is_same = false}}}};
  EXPECT_EQ(view_of(view),
            R"({"kind":"flips","base_s":1.5,"inputs":[{"name":"memory","steps":[)"
            R"({"change":-0.5,"winner":"","is_same":true},)"
            R"({"change":0.5,"time_s":1.0,"same_s":2.0,"winner":"q","is_same":false}]}]})");
}

TEST(ReportJson, HasTheCriticalPathAsTwoColumns) {
  TimelineView view{.num_ranks = 2,
                    .kinds = {{.name = "forward", .letter = "F", .waits_for = "it"}}};
  view.schedules = {{.name = "1f1b",
                     .end_s = 2.5,
                     .bubble_s = 0.5,
                     .tick_s = 0.001,
                     .num_actions = {3, 4},
                     .actions = "eJw=",
                     .critical_path = {{0, 1}, {1, 2}}}};
  EXPECT_EQ(view_of(view),
            R"({"kind":"timeline","num_ranks":2,"kinds":[{"name":"forward","letter":"F",)"
            R"("tint":"compute","waits_for":"it"}],"schedules":[{"name":"1f1b","end_s":2.5,)"
            R"("bubble_s":0.5,"tick_s":0.001,"num_actions":[3,4],"actions":"eJw=",)"
            R"("critical_path":{"ranks":[0,1],"indices":[1,2]}}]})");
}

TEST(ReportJson, RefusesNumbersThatJsonCannotHold) {
  const auto write = [] {
    (void)view_of(BarsView{.unit = "s", .bars = {{.name = "a", .value = std::nan("")}}});
  };
  EXPECT_THAT(message_of(write, ExitStatus::kBug), HasSubstr("\"value\" is not a finite number"));
}

}  // namespace
}  // namespace ptdp
