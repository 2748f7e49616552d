// Answers of searches that end before they have looked at everything.
#include <gtest/gtest.h>

#include "planner/answer/planning.h"
#include "planner/answer/strategies.h"
#include "tests/planner/limited_search.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

TEST(Planning, SaysWhatItsSearchDidNotLookAt) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 240);
  int unproven = 0;
  for (int questions = 1; questions < 100; questions *= 2) {
    const PlanningResult result =
        plan_training(scenario, {.gpus = 240, .limit = after_questions(questions)},
                      CalibrationSource::parse("none", ""));
    if (!result.search.unseen.has_value()) {
      break;
    }
    const std::string json = to_json(result);
    EXPECT_NE(json.find("\"complete\": false"), std::string::npos);
    EXPECT_NE(json.find("\"least_unseen_s\": "), std::string::npos);
    const std::string remark = unproven_remark(result.search, result.options, 1.0);
    if (!result.search.is_proven && !result.plans.empty()) {
      ++unproven;
      EXPECT_NE(json.find("\"proven\": false"), std::string::npos);
      EXPECT_NE(remark.find("Not proven"), std::string::npos);
    }
  }
  EXPECT_GT(unproven, 0);
}

TEST(StrategyComparison, GivesEveryStrategyItsShareOfTheLimit) {
  const Scenario scenario = shipped_scenario("18B", "selene-a100", "megatron-lm-2022", 240);
  SearchOptions options{.gpus = 240};
  options.limit = after_questions(20);
  const StrategyComparison comparison =
      compare_strategies(scenario, options, CalibrationSource::parse("none", ""));
  for (const StrategyResult& result : comparison.results) {
    EXPECT_GT(result.search.enumerated, 0) << result.name.name;
  }
  EXPECT_FALSE(comparison.results.front().search.is_proven);
}

}  // namespace
}  // namespace ptdp
