// Tests of the page of a log: its numbers are the answer's.
#include "planner/report/answers/log_page.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/report/answers/given_report.h"
#include "tests/planner/report/answers/answers.h"
#include "tests/planner/report/answers/sections_of.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(LogPage, SetsWhatWasMeasuredBesideThePrediction) {
  const LogReport log = small_log(plan_of_39b());
  const Report report = log_page(log);
  const json answer = json::parse(to_json(log));
  EXPECT_THAT(report.sentence, HasSubstr("took 2 s in the steady state, iterations 3 to 40"));
  const auto& steps = std::get<CurvesView>(section_named(report, "steps").view);
  const Curve& measured = steps.curves[0];
  EXPECT_EQ(measured.x.size(), 40U);
  EXPECT_THAT(std::vector<double>(measured.y.begin(), measured.y.begin() + 4),
              ElementsAre(8.0, 3.0, 2.0, 2.0));
  EXPECT_EQ(measured.y[29], 4.0);
  const Curve& predicted = steps.curves[1];
  EXPECT_THAT(predicted.x, ElementsAre(1.0, 40.0));
  EXPECT_TRUE(is_told(predicted.y[0], answer["predicted"]["iteration_time_s"]));
  EXPECT_TRUE(is_told(predicted.low[1], answer["predicted"]["interval_s"][0]));
  EXPECT_TRUE(is_told(predicted.high[1], answer["predicted"]["interval_s"][1]));
  ASSERT_EQ(steps.marks.size(), 1U);
  EXPECT_TRUE(is_told(steps.marks[0].value, answer["measured"]["first_step"]));
  EXPECT_THAT(section_named(report, "steps").note, HasSubstr("38 of 40 lines from iteration 3 on"));
  EXPECT_THAT(section_named(report, "steps").note, HasSubstr("1 line took half as long again"));
}

TEST(LogPage, DrawsLossMemoryAndTimers) {
  const LogReport log = small_log(plan_of_39b());
  const Report report = log_page(log);
  const json answer = json::parse(to_json(log));
  const Curve& loss = std::get<CurvesView>(section_named(report, "loss").view).curves[0];
  EXPECT_EQ(loss.y.front(), 10.0);
  EXPECT_TRUE(is_told(loss.y.back(), answer["measured"]["loss"]));
  const auto& memory = std::get<BarsView>(section_named(report, "measured-memory").view).bars;
  ASSERT_EQ(memory.size(), 4U);
  EXPECT_EQ(memory[0].value, 3.0);
  EXPECT_EQ(memory[2].value, 4.0);
  EXPECT_TRUE(
      is_told(memory[1].value * kGibi, answer["predicted"]["memory_without_reserve_bytes"]));
  EXPECT_TRUE(is_told(memory[3].value * kGibi, answer["predicted"]["memory_bytes"]));
  const auto& timers = std::get<TableView>(section_named(report, "timers").view).rows;
  EXPECT_THAT(timers, Contains(Contains("250 ms")));
  EXPECT_THAT(timers, Contains(Contains("500 ms")));
}

TEST(LogPage, SaysHowUsualThatIsAndWhereToLook) {
  const Plan plan = plan_of_39b();
  LogReport log = small_log(plan);
  log.steady.time = plan.predicted.iteration_time.value * 1.5;
  const Report report = log_page(log);
  const json iteration =
      json::parse(measured_json(compare_iteration(plan, log.steady.time, "x")).dump());
  const auto& factors = std::get<BarsView>(section_named(report, "factor").view).bars;
  EXPECT_TRUE(is_told(factors[0].value, iteration["factor"]));
  EXPECT_TRUE(is_told(*factors[1].low, iteration["usual_factors"][0]));
  EXPECT_TRUE(is_told(factors[1].value, iteration["usual_factors"][1]));
  EXPECT_TRUE(is_told(*factors[1].high, iteration["usual_factors"][2]));
  const auto& suspects = std::get<TableView>(section_named(report, "suspects").view).rows;
  ASSERT_EQ(suspects.size(), iteration["suspects"].size());
  for (std::size_t i = 0; i < suspects.size(); ++i) {
    EXPECT_EQ(suspects[i][0], iteration["suspects"][i]["term"]);
    EXPECT_EQ(suspects[i][2], iteration["suspects"][i]["where"]);
  }
  EXPECT_THAT(section_named(report, "suspects").note, HasSubstr("the data loader"));
}

TEST(LogPage, OfAFasterRunDoesNotSayWhereToLook) {
  const Plan plan = plan_of_39b();
  LogReport log = small_log(plan);
  log.steady.time = plan.predicted.iteration_time.value * 0.9;
  const ReportSection section = section_named(log_page(log), "suspects");
  EXPECT_THAT(section.note, Not(HasSubstr("the data loader")));
  for (const std::vector<std::string>& row : std::get<TableView>(section.view).rows) {
    EXPECT_EQ(row[2], "");
  }
}

TEST(LogPage, WithoutAPlanHasWhatWasMeasuredAlone) {
  const Report report = log_page(small_log(std::nullopt));
  EXPECT_THAT(ids_of(report),
              ElementsAre("measured", "steps", "loss", "measured-memory", "remarks"));
  EXPECT_EQ(std::get<CurvesView>(section_named(report, "steps").view).curves.size(), 1U);
  EXPECT_THAT(report.sentence, HasSubstr("what was run is not known"));
  EXPECT_THAT(std::get<TextView>(section_named(report, "remarks").view).paragraphs.back(),
              HasSubstr("--plan PLAN.json"));
}

TEST(LogPage, ShowsHostileNamesAsText) {
  const std::string html = to_html(log_page(small_log(plan_of_39b())));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("&lt;img"));
}

// The page of a configuration has the same sections of its log.
TEST(GivenReport, HasTheSectionsOfItsLog) {
  const Plan plan = plan_of_39b();
  const LogReport log = small_log(plan);
  const GivenConfig given{.scenario = plan.scenario,
                          .options = {.gpus = 64},
                          .config = plan.config,
                          .plan = plan,
                          .measured = compare_iteration(plan, log.steady.time, log.file)};
  const Report report = given_report(given, {}, {}, {}, log);
  for (const char* id : {"measured", "steps", "loss", "measured-memory", "factor", "suspects"}) {
    EXPECT_THAT(ids_of(report), Contains(id));
  }
  const std::vector<std::string> without = ids_of(given_report(given, {}, {}, {}));
  EXPECT_THAT(without, Not(Contains("steps")));
  EXPECT_THAT(without, Contains("factor"));
}

}  // namespace
}  // namespace ptdp
