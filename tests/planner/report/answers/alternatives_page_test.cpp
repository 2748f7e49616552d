// Tests of pages that set stacks and strategies beside each other: their numbers are the answer's.
#include "planner/report/answers/alternatives_page.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "tests/planner/report/answers/answers.h"
#include "tests/planner/report/answers/sections_of.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

/// Expects that the pictures of an alternative hold what the answer's document says of it.
void expect_equal(const json& answer, const std::string& name, const Report& report) {
  const auto& times = std::get<BarsView>(section_named(report, "times").view);
  const auto bar = std::ranges::find(times.bars, name, &Bar::name);
  ASSERT_NE(bar, times.bars.end()) << name;
  EXPECT_TRUE(is_told(bar->value, answer["predicted"]["iteration_time_s"]));
  EXPECT_TRUE(is_told(*bar->low, answer["predicted"]["interval_s"][0]));
  EXPECT_TRUE(is_told(*bar->high, answer["predicted"]["interval_s"][1]));
  const auto choice = [&](const char* section) -> const PictureChoice& {
    const auto& choices = std::get<ChoicesView>(section_named(report, section).view).choices;
    const auto found = std::ranges::find(choices, name, &PictureChoice::name);
    EXPECT_NE(found, choices.end()) << name;
    return *found;
  };
  double sum = 0.0;
  const auto& waterfall = std::get<BarsView>(choice("time").picture);
  for (const Bar& part : waterfall.bars) {
    sum += part.value;
  }
  EXPECT_NEAR(sum, bar->value, 1e-9 * bar->value);
  EXPECT_EQ(waterfall.total->value, bar->value);
  double most = 0.0;
  for (const StackedColumn& column : std::get<StackedView>(choice("memory").picture).columns) {
    double together = 0.0;
    for (const double value : column.values) {
      together += value;
    }
    most = std::max(most, together);
  }
  EXPECT_NEAR(most, answer["memory"]["peak_GiB"].get<double>(), 1e-9 * most);
}

TEST(StacksReport, HasTheNumbersOfTheAnswer) {
  const StackComparison found = small_stacks();
  const Report report =
      stacks_report(found, {.assumptions = {"batch 1024"}, .next = "ptdp-plan x"});
  const json answer = json::parse(in_format(AnswerFormat::kJson, found, {}));
  for (const json& stack : answer["stacks"]) {
    if (stack["fits"] == true) {
      expect_equal(stack, stack["stack"], report);
    }
  }
  const json& best = answer["stacks"][0];
  EXPECT_THAT(report.sentence, HasSubstr(best["stack"].get<std::string>() + " takes least time"));
  EXPECT_THAT(report.rests_on, Contains("Assumed: batch 1024"));
  const auto& rows = std::get<TableView>(section_named(report, "alternatives").view).rows;
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows[1][0], answer["stacks"][1]["stack"]);
  const double chance = 100.0 * answer["stacks"][1]["faster_than_best"].get<double>();
  EXPECT_EQ(rows[1][3], std::to_string(std::lround(chance)) + " %");
  EXPECT_THAT(std::get<TableView>(section_named(report, "without").view).rows,
              ElementsAre(ElementsAre(kHostileName, "no such kernels")));
  EXPECT_THAT(std::get<TextView>(section_named(report, "remarks").view).paragraphs,
              ElementsAre("Next\n  ptdp-plan x"));
}

TEST(StacksReport, ShowsHostileNamesAsText) {
  const std::string html = to_html(stacks_report(small_stacks(), {}));
  EXPECT_THAT(html, Not(HasSubstr("<img")));
  EXPECT_THAT(html, HasSubstr("\\u003cimg src=x"));
}

TEST(StrategiesReport, HasTheNumbersOfTheAnswerTheBestFirst) {
  const StrategyComparison found = small_strategies();
  const Report report = strategies_report(found, {});
  const json answer = json::parse(to_json(found));
  double last = 0.0;
  for (const Bar& bar : std::get<BarsView>(section_named(report, "times").view).bars) {
    EXPECT_GE(bar.value, last);
    last = bar.value;
  }
  for (std::size_t i = 0; i < kStrategies.size(); ++i) {
    if (answer["strategies"][i]["fits"] == true) {
      expect_equal(answer["strategies"][i], std::string(kStrategies[i].name), report);
    }
  }
  const auto& choices = std::get<ChoicesView>(section_named(report, "time").view).choices;
  EXPECT_THAT(choices[0].note, Not(HasSubstr("Beside")));
  EXPECT_THAT(choices[1].note, HasSubstr("Beside " + choices[0].name + ": "));
}

// The stack has no full sharding, so it is costed as if it had; a batch of 8 leaves ZeRO-3 idle
// GPUs.
TEST(StrategiesReport, MarksWhatTheStackDoesNotRun) {
  SearchOptions options{.gpus = 16};
  const Report report = strategies_report(
      compare_strategies(selene_2021("1.7B", 8), options, CalibrationSource::none()), {});
  const auto& times = std::get<BarsView>(section_named(report, "times").view);
  for (const Bar& bar : times.bars) {
    EXPECT_EQ(bar.tint == Tint::kIdle, bar.name != "PTD-P") << bar.name;
  }
  const auto& rows = std::get<TableView>(section_named(report, "alternatives").view).rows;
  const auto zero = std::ranges::find(rows, "ZeRO-3", [](const auto& row) { return row[0]; });
  ASSERT_NE(zero, rows.end());
  EXPECT_EQ(zero->back(),
            "not run by megatron-lm-2021; a batch of 8 keeps no more than 8 GPUs busy");
  EXPECT_THAT(report.rests_on, Contains("The times are not calibrated."));
}

TEST(StrategiesReport, StandsByTheObjective) {
  const StrategyComparison found = small_strategies(Objective::kCost);
  const Report report = strategies_report(found, {});
  const auto cost_of = [&](const Bar& bar) {
    const auto result = std::ranges::find(found.results, bar.name,
                                          [](const StrategyResult& one) { return one.name.name; });
    return bar.value * static_cast<double>(result->plan->config.world_size());
  };
  EXPECT_TRUE(std::ranges::is_sorted(std::get<BarsView>(section_named(report, "times").view).bars,
                                     {}, cost_of));
  EXPECT_THAT(report.sentence, HasSubstr("costs least GPU time"));
}

}  // namespace
}  // namespace ptdp
