// Tests of two plans beside each other.
#include "planner/answer/comparison.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "planner/answer/planning.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

/// Returns a plan of SC21's 18B model on 64 GPUs.
Plan plan_of_18b(const ParallelConfig& config, std::int64_t batch = 1024,
                 const std::string& model = "18B") {
  const Scenario scenario = selene_2021(model, batch);
  const CalibrationFit fit =
      CalibrationSource::shipped().fit(scenario, 64, CalibrationSource::shipped().published());
  return make_plan({scenario, config}, 64, 0.0, fit.at(run_point(scenario, config)));
}

const ParallelConfig kFirst = {.tp = 8, .pp = 2, .dp = 4, .recompute = Recompute::kFull};
const ParallelConfig kSecond = {.tp = 4, .pp = 4, .dp = 4, .recompute = Recompute::kFull};

PlanComparison compared(Plan first, Plan second) {
  return compare_plans({NamedPlan{"a.json", std::move(first)}, {"b.json", std::move(second)}},
                       CalibrationSource::shipped());
}

nlohmann::json document(const PlanComparison& comparison) {
  return nlohmann::json::parse(in_format(AnswerFormat::kJson, comparison));
}

// Terms that were made up: 5 s against 3 s of products, and 1 s against 4 s of bubble.
TEST(Comparison, HasEachTermWithItsDifference) {
  Plan first = plan_of_18b(kFirst);
  Plan second = plan_of_18b(kSecond);
  first.predicted.breakdown = {.matmul = Seconds(5.0), .bubble = Seconds(1.0)};
  second.predicted.breakdown = {.matmul = Seconds(3.0), .bubble = Seconds(4.0)};
  const PlanComparison comparison = compared(first, second);
  std::map<std::string, double> differences;
  const nlohmann::json written = document(comparison);
  for (const nlohmann::json& term : written["terms"]) {
    EXPECT_DOUBLE_EQ(term["second_s"].get<double>() - term["first_s"].get<double>(),
                     term["difference_s"].get<double>());
    differences[term["term"]] = term["difference_s"];
  }
  EXPECT_DOUBLE_EQ(differences.at("matmul"), -2.0);
  EXPECT_DOUBLE_EQ(differences.at("bubble"), 3.0);
  EXPECT_DOUBLE_EQ(differences.at("launch"), 0.0);
  const std::string text = in_format(AnswerFormat::kText, comparison);
  EXPECT_THAT(text, HasSubstr("matmul                            5          3         -2"));
  EXPECT_LT(text.find("bubble "), text.find("matmul "));  // the largest difference first
}

TEST(Comparison, HasTheKeysThatDifferAndNoOthers) {
  const PlanComparison comparison = compared(plan_of_18b(kFirst), plan_of_18b(kSecond));
  ASSERT_EQ(comparison.config.size(), 2U);
  EXPECT_EQ(comparison.config[0].key, "tp");
  EXPECT_EQ(comparison.config[0].values, (std::array<std::string, 2>{"8", "4"}));
  EXPECT_EQ(comparison.config[1].key, "pp");
  EXPECT_TRUE(comparison.inputs.empty());
}

// 1F1B is paced by its slowest stage: what that computes is all but the terms of waiting and of the
// iteration's end.
TEST(Comparison, HasStagesOfWhichTheSlowestPacesThePlan) {
  const Plan first = plan_of_18b(kFirst);
  const PlanComparison comparison = compared(first, plan_of_18b(kSecond));
  const CostBreakdown& cost = first.predicted.breakdown;
  const Seconds others = cost.bubble + cost.pipeline_messages + cost.data_parallel +
                         cost.embedding_all_reduce + cost.optimizer;
  Seconds slowest;
  for (const ComparedStage& stage : comparison.stages[0]) {
    slowest = std::max(slowest, stage.passes);
  }
  EXPECT_NEAR(slowest.value(), (cost.total() - others).value(), 1e-6 * slowest.value());
  const nlohmann::json stages = document(comparison)["stages"];
  ASSERT_EQ(stages.size(), 4U);
  EXPECT_TRUE(stages[1].contains("first_passes_s"));
  EXPECT_FALSE(stages[2].contains("first_passes_s"));
  for (std::size_t stage = 0; stage < 2; ++stage) {
    EXPECT_NEAR(stages[stage]["first_GiB"].get<double>(),
                first.memory.stages[stage].total().value() / kGibi, 1e-9);
  }
}

// The list of plans of a search says the same of its second plan.
TEST(Comparison, IsAsSureAsTheListOfPlans) {
  const PlanningResult result = plan_training(selene_2021("18B"), {.gpus = 64});
  ASSERT_GE(result.plans.size(), 2U);
  const PlanComparison comparison = compared(result.plans[1], result.plans[0]);
  ASSERT_TRUE(comparison.first_faster);
  EXPECT_NEAR(*comparison.first_faster,
              probability_better(result.plans[1], result.plans[0], result), 1e-12);
  const PlanComparison turned = compared(result.plans[0], result.plans[1]);
  EXPECT_NEAR(*comparison.first_faster + *turned.first_faster, 1.0, 1e-12);
}

TEST(Comparison, OfDifferentJobsSaysSoFirstAndNoProbability) {
  for (const Plan& other : {plan_of_18b(kFirst, 512), plan_of_18b(kFirst, 1024, "3.6B")}) {
    const PlanComparison comparison = compared(plan_of_18b(kFirst), other);
    EXPECT_FALSE(comparison.is_one_job());
    EXPECT_FALSE(comparison.first_faster);
    EXPECT_THAT(in_format(AnswerFormat::kText, comparison),
                testing::StartsWith("These plans train different "));
    EXPECT_FALSE(document(comparison).contains("first_faster"));
    EXPECT_EQ(document(comparison)["reason"], "they train different jobs");
  }
}

TEST(Comparison, OfPlansCalibratedOtherwiseSaysNoProbability) {
  const Plan plain = make_plan({selene_2021("18B", 1024), kFirst}, 64, 0.0, Calibration{});
  const PlanComparison comparison = compared(plan_of_18b(kFirst), plain);
  EXPECT_FALSE(comparison.first_faster);
  EXPECT_EQ(comparison.reason, "they are calibrated by different runs");
  EXPECT_EQ(comparison.inputs.front().key, "calibration_factor");
}

TEST(Comparison, NamesAProfileThatChangedUnderItsName) {
  Plan other = plan_of_18b(kFirst);
  other.scenario.cluster.nic.bandwidth = other.scenario.cluster.nic.bandwidth * 0.5;
  const PlanComparison comparison = compared(plan_of_18b(kFirst), other);
  ASSERT_EQ(comparison.inputs.size(), 1U);
  EXPECT_EQ(comparison.inputs[0].values[1], "selene-a100, changed");
}

}  // namespace
}  // namespace ptdp
