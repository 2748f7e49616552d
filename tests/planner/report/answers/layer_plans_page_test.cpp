// Tests of the page of a list of layers: its numbers are the answer's.
#include "planner/report/answers/layer_plans_page.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/partition_report/layer_plans_output.h"
#include "tests/planner/report/answers/answers.h"
#include "tests/planner/report/answers/sections_of.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

const View& view_of(const Report& report, const std::string& id) {
  return section_named(report, id).view;
}

TEST(LayerPlansPage, HasTheTimesAndTermsOfTheAnswer) {
  const LayerPlans plans = small_layers();
  const Report report = layer_plans_page(plans, {"cluster dgx-h100: usual today"});
  const json answer = json::parse(in_format(AnswerFormat::kJson, plans, {}));
  ASSERT_EQ(answer["plans"].size(), 5U);
  const auto& times = std::get<BarsView>(view_of(report, "times")).bars;
  const auto& waterfalls = std::get<ChoicesView>(view_of(report, "time")).choices;
  for (std::size_t i = 0; i < times.size(); ++i) {
    const json& plan = answer["plans"][i];
    EXPECT_TRUE(is_told(times[i].value, plan["iteration_time_s"]));
    const auto& waterfall = std::get<BarsView>(waterfalls[i].picture);
    double sum = 0.0;
    for (const Bar& bar : waterfall.bars) {
      EXPECT_TRUE(is_told(bar.value, plan["breakdown_s"][bar.name])) << bar.name;
      sum += bar.value;
    }
    EXPECT_NEAR(sum, waterfall.total->value, 1e-12);
    EXPECT_EQ(waterfall.total->value, times[i].value);
  }
  EXPECT_THAT(report.rests_on, Contains("Assumed: cluster dgx-h100: usual today"));
  EXPECT_THAT(report.sentence, HasSubstr(degrees_text(plans.plans[0].config) + " takes least"));
}

TEST(LayerPlansPage, HasTheStagesAndMemoryOfTheAnswer) {
  const LayerPlans plans = small_layers();
  const Report report = layer_plans_page(plans, {});
  const json answer = json::parse(in_format(AnswerFormat::kJson, plans, {}));
  const auto choice = [&](const char* id, std::size_t i) {
    return std::get<ChoicesView>(view_of(report, id)).choices[i].picture;
  };
  const auto together = [](const StackedColumn& column) {
    double sum = 0.0;
    for (const double value : column.values) {
      sum += value;
    }
    return sum;
  };
  for (std::size_t i = 0; i < answer["plans"].size(); ++i) {
    const json& plan = answer["plans"][i];
    const auto times = std::get<StackedView>(choice("rank-times", i));
    const auto memory = std::get<StackedView>(choice("memory", i));
    ASSERT_EQ(times.columns.size(), plan["ranks"].size());
    for (std::size_t rank = 0; rank < times.columns.size(); ++rank) {
      EXPECT_NEAR(together(times.columns[rank]), plan["ranks"][rank]["time_s"].get<double>(),
                  1e-12);
      EXPECT_NEAR(together(memory.columns[rank]), plan["ranks"][rank]["memory_GiB"].get<double>(),
                  1e-9);
    }
    EXPECT_EQ(memory.limit->value, 80.0);
    const auto stages = std::get<TableView>(choice("stages", i));
    ASSERT_EQ(stages.rows.size(), plan["stages"].size());
    for (std::size_t stage = 0; stage < stages.rows.size(); ++stage) {
      EXPECT_EQ(stages.rows[stage][1], std::to_string(plan["stages"][stage]["rank"].get<int>()));
      EXPECT_EQ(stages.rows[stage][2],
                std::to_string(plan["stages"][stage]["num_layers"].get<int>()));
      EXPECT_EQ(stages.rows[stage][3], plan["stages"][stage]["holds"]);
    }
  }
}

// Steps of so few actions are simulated in full by searches, too.
TEST(LayerPlansPage, DrawsTheStepThatTheSearchTimed) {
  const LayerPlans plans = small_layers();
  const Report report = layer_plans_page(plans, {});
  const auto& timeline = std::get<TimelineView>(view_of(report, "timeline"));
  EXPECT_EQ(timeline.num_ranks, plans.plans[0].config.pp);
  EXPECT_NEAR(timeline.schedules[0].end_s, plans.plans[0].iteration_time().value(), 1e-12);
  EXPECT_EQ(timeline.schedules[0].bubble_s, plans.plans[0].times.bubble.value());
}

TEST(LayerPlansPage, LeavesOutAStepThatIsTooLong) {
  LayerPlans plans = small_layers();
  plans.plans[0].partition.num_microbatches = 1'000'000;
  EXPECT_THAT(std::get<TextView>(view_of(layer_plans_page(plans, {}), "timeline")).paragraphs[0],
              HasSubstr("more than a page draws (300,000)"));
}

TEST(LayerPlansPage, ShowsHostileNamesAsText) {
  const std::string html = to_html(layer_plans_page(small_layers(), {}));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("&lt;img"));
}

}  // namespace
}  // namespace ptdp
