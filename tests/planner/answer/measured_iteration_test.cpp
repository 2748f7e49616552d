// Tests of a measured iteration beside its plan, by hand.
#include "planner/answer/measured_iteration.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

/// Returns a plan of 10 s: 6 s of products, 3 s of bubble, 1 s of launches; factor 2, 8 to 12.5 s.
Plan plan_of_ten_seconds() {
  Plan plan = make_plan(PlannedJob(selene_2021("1.7B", 512), {.dp = 32, .micro_batch_size = 16}),
                        32, 0.0, Calibration{.factor = 2.0});
  plan.predicted.breakdown = {};
  plan.predicted.breakdown.matmul = Seconds(6.0);
  plan.predicted.breakdown.bubble = Seconds(3.0);
  plan.predicted.breakdown.launch = Seconds(1.0);
  plan.predicted.iteration_time = {
      .value = Seconds(10.0), .low = Seconds(8.0), .high = Seconds(12.5)};
  return plan;
}

// 10 s are 5 s by the cost model alone; 12.5 s are a factor of 2.5 over it.
TEST(CompareIteration, HasTheFactorOverTheCostModel) {
  const MeasuredIteration slow = compare_iteration(plan_of_ten_seconds(), Seconds(12.5), "x");
  EXPECT_NEAR(slow.factor, 2.5, 1e-12);
  EXPECT_NEAR(slow.factors.low, 1.6, 1e-12);
  EXPECT_NEAR(slow.factors.value, 2.0, 1e-12);
  EXPECT_NEAR(slow.factors.high, 2.5, 1e-12);
}

// An end of a 90 % interval is passed by 5 % of runs, its middle by half.
TEST(CompareIteration, SaysHowUsualARunIs) {
  const Plan plan = plan_of_ten_seconds();
  EXPECT_NEAR(compare_iteration(plan, Seconds(12.5), "x").probability, 0.05, 1e-9);
  EXPECT_NEAR(compare_iteration(plan, Seconds(8.0), "x").probability, 0.05, 1e-9);
  EXPECT_NEAR(compare_iteration(plan, Seconds(10.0), "x").probability, 0.5, 1e-9);
  EXPECT_LT(compare_iteration(plan, Seconds(20.0), "x").probability, 1e-4);
}

// 6 s more: products twice as long, the bubble three times; launches would take seven times as
// long.
TEST(CompareIteration, SuspectsTermsThatAreLargeEnough) {
  const MeasuredIteration slow = compare_iteration(plan_of_ten_seconds(), Seconds(16.0), "x");
  ASSERT_EQ(slow.suspects.size(), 2U);
  EXPECT_EQ(slow.suspects[0].name, "matmul");
  EXPECT_NEAR(slow.suspects[0].factor, 2.0, 1e-12);
  EXPECT_EQ(slow.suspects[1].name, "bubble");
  EXPECT_NEAR(slow.suspects[1].factor, 3.0, 1e-12);
}

// 4 s less can only be of the products: the bubble is 3 s.
TEST(CompareIteration, SuspectsNoTermOfMoreThanItself) {
  const MeasuredIteration fast = compare_iteration(plan_of_ten_seconds(), Seconds(6.0), "x");
  ASSERT_EQ(fast.suspects.size(), 1U);
  EXPECT_EQ(fast.suspects[0].name, "matmul");
  EXPECT_NEAR(fast.suspects[0].factor, 1.0 / 3.0, 1e-12);
}

TEST(CompareIteration, KnowsWhereToLookForEveryTerm) {
  Plan plan = plan_of_ten_seconds();
  for (const CostTerm& term : kCostTerms) {
    plan.predicted.breakdown.*term.time = Seconds(1.0);
  }
  const MeasuredIteration slow = compare_iteration(plan, Seconds(11.0), "x");
  ASSERT_EQ(slow.suspects.size(), kCostTerms.size());
  for (const SuspectTerm& suspect : slow.suspects) {
    EXPECT_FALSE(suspect.where.empty()) << suspect.name;
  }
}

TEST(MeasuredIterationText, SaysWhatIsUnusual) {
  const Plan plan = plan_of_ten_seconds();
  const auto text = [&](double seconds) {
    return to_text(compare_iteration(plan, Seconds(seconds), "--measured"), plan);
  };
  EXPECT_THAT(text(12.0), HasSubstr("20.0 % more than predicted"));
  EXPECT_THAT(text(12.0), HasSubstr("nothing unusual"));
  EXPECT_THAT(text(16.0), HasSubstr("in 90 %: unusual"));
  EXPECT_THAT(text(16.0), HasSubstr("less than 1 % of such runs"));
  EXPECT_THAT(text(9.0), HasSubstr("10.0 % less than predicted"));
  EXPECT_THAT(text(9.0), Not(HasSubstr("data loader")));
  EXPECT_THAT(text(1000.0), HasSubstr("100 times what was predicted"));
  EXPECT_THAT(text(1000.0), HasSubstr("No term alone explains a difference of 990 s"));
}

TEST(MeasuredIterationJson, HasAllOfIt) {
  const json document = json::parse(
      measured_json(compare_iteration(plan_of_ten_seconds(), Seconds(16.0), "a log")).dump());
  EXPECT_EQ(document["time_s"], 16.0);
  EXPECT_EQ(document["source"], "a log");
  EXPECT_EQ(document["suspects"][1]["term"], "bubble");
  EXPECT_EQ(document["suspects"][1]["predicted_s"], 3.0);
}

}  // namespace
}  // namespace ptdp
