// Tests of software stacks side by side.
#include "planner/answer/stacks.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "planner/answer/planning.h"
#include "planner/formatting.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

const std::vector<std::string>& some_stacks() {
  static const std::vector<std::string> names = {"megatron-lm-2021", "megatron-lm-2022",
                                                 "megatron-core-2024"};
  return names;
}

std::vector<StackChoice> choices() {
  std::vector<StackChoice> all;
  for (const std::string& name : some_stacks()) {
    all.push_back({name, shipped_scenario("18B", "selene-a100", name), ""});
  }
  all.push_back({"of-nobody", std::nullopt, "no such kernels"});
  return all;
}

TEST(Stacks, HaveThePlansOfTheirOwnSearches) {
  const SearchOptions options{.gpus = 64};
  const StackComparison found =
      compare_stacks(shipped_scenario("18B", "selene-a100", "megatron-lm-2021"), choices(), options,
                     CalibrationSource::shipped());
  ASSERT_EQ(found.results.size(), 4U);
  double last = 0.0;
  for (const StackResult& result : found.results) {
    if (result.stack == "of-nobody") {
      EXPECT_FALSE(result.plan);
      EXPECT_EQ(&result, &found.results.back());
      continue;
    }
    const PlanningResult alone =
        plan_training(shipped_scenario("18B", "selene-a100", result.stack), options);
    ASSERT_TRUE(result.plan) << result.stack;
    EXPECT_EQ(result.plan->config, alone.plans.front().config);
    const double time = result.plan->predicted.iteration_time.value.value();
    EXPECT_DOUBLE_EQ(time, alone.plans.front().predicted.iteration_time.value.value());
    EXPECT_GE(time, last);
    last = time;
  }
}

TEST(Stacks, ArePrintedInEveryFormat) {
  const StackComparison found =
      compare_stacks(shipped_scenario("18B", "selene-a100", "megatron-lm-2021"), choices(),
                     {.gpus = 64}, CalibrationSource::shipped());
  const std::string text = in_format(AnswerFormat::kText, found, {"an assumption"});
  EXPECT_THAT(text, HasSubstr("Train 18B on 64 GPUs (selene-a100), batch 1024: each stack at its"));
  EXPECT_THAT(text, HasSubstr("\nWithout a plan\n  of-nobody: no such kernels\n"));
  EXPECT_THAT(text, HasSubstr("an assumption"));
  const auto json = nlohmann::json::parse(in_format(AnswerFormat::kJson, found, {}));
  EXPECT_EQ(json["schema"], "ptdp.stacks/1");
  EXPECT_EQ(json["stacks"].size(), 4U);
  EXPECT_EQ(json["stacks"][0]["stack"], found.results.front().stack);
  EXPECT_EQ(json["stacks"][3]["reason"], "no such kernels");
  const std::string csv = in_format(AnswerFormat::kCsv, found, {});
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 5);
}

/// Returns a lognormal time: `seconds`, and a standard deviation of the logarithm.
Estimate<Seconds> lognormal(double seconds, double deviation) {
  const double factor = std::exp(1.6449 * deviation);
  return {Seconds(seconds), Seconds(seconds / factor), Seconds(seconds * factor)};
}

// Tables of the normal distribution: a gain of one deviation of the difference has 84.13 %.
TEST(ProbabilityFaster, IsThatOfTwoIndependentErrors) {
  const Estimate<Seconds> slow = lognormal(1.0, 0.06);
  EXPECT_NEAR(probability_faster(lognormal(std::exp(-0.1), 0.08), slow), 0.8413, 1e-4);
  EXPECT_NEAR(probability_faster(lognormal(std::exp(0.1), 0.08), slow), 0.1587, 1e-4);
  EXPECT_NEAR(probability_faster(slow, slow), 0.5, 1e-12);
}

TEST(FasterStack, IsNamedWithTheTimeOfThePlansConfiguration) {
  const PlanningResult result =
      plan_training(shipped_scenario("18B", "selene-a100", "megatron-lm-2021"), {.gpus = 64});
  const Plan& plan = result.plans.front();
  // By hand: the times of the very configuration with each stack that runs it.
  const CalibrationSource source = CalibrationSource::shipped();
  std::map<std::string, Seconds> times;
  for (const StackChoice& choice : choices()) {
    if (choice.scenario && !find_violation({*choice.scenario, plan.config},
                                           usable_memory(plan.scenario.cluster.gpu, 0.0))) {
      times[choice.stack] =
          predict({*choice.scenario, plan.config},
                  source.fit(*choice.scenario, 64).at(run_point(*choice.scenario, plan.config)))
              .iteration_time.value;
    }
  }
  ASSERT_GE(times.size(), 3U);
  const std::string remark = faster_stack_remark(plan, choices(), source);
  const auto named = std::ranges::find_if(times, [&](const auto& entry) {
    return remark.find("--stack " + entry.first + " ") != std::string::npos;
  });
  ASSERT_NE(named, times.end()) << remark;
  EXPECT_LT(named->second, plan.predicted.iteration_time.value * 0.97);
  EXPECT_THAT(remark, HasSubstr("takes " + duration(named->second)));
  for (const auto& [stack, time] : times) {
    EXPECT_GE(time, named->second * 0.97) << stack;
  }
  EXPECT_THAT(faster_stack_remark(plan, {choices().front()}, source), IsEmpty());
}

}  // namespace
}  // namespace ptdp
