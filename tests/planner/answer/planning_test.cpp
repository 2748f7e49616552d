#include "planner/answer/planning.h"

#include <gmock/gmock.h>

#include <sstream>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/error.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

PlanningResult trillion() {
  return plan_training(selene_2021("1T"), {.gpus = 3072});
}

TEST(PlanTraining, LeavesThePublishedRunOutOfItsOwnCalibration) {
  // Ten rows of SC21 table 1 and 54 of its figures, one of them this very run.
  EXPECT_EQ(trillion().calibration.num_runs(), 63);
  EXPECT_EQ(plan_training(selene_2021("1T"), {.gpus = 1536}).calibration.num_runs(), 64);
}

TEST(PlanTraining, SetsThePublishedRunBesideIt) {
  const PlanningResult result = trillion();
  ASSERT_EQ(result.published.size(), 1U);
  EXPECT_EQ(result.published.front().run.id, "sc21-t1-1T");
  EXPECT_TRUE(result.published.front().is_same_stack);
  // Its prediction is calibrated as ours is, whatever the row says of overlap.
  EXPECT_EQ(result.published.front().predicted.calibration_runs, 63);
}

// What a profile is called says nothing of what it describes.
TEST(PlanTraining, IsCalibratedByRunsOnTheSameHardwareAndSoftwareOnly) {
  const SearchOptions options{.gpus = 3072};
  Scenario slower = selene_2021("1T");
  slower.cluster.nic.bandwidth = gigabytes_per_second(3.0);
  EXPECT_EQ(plan_training(slower, options).calibration.num_runs(), 0);
  EXPECT_FALSE(plan_training(slower, options).published.front().is_same_stack);
  Scenario faster = selene_2021("1T");
  faster.stack.fused_gradient_accumulation = true;
  EXPECT_EQ(plan_training(faster, options).calibration.num_runs(), 0);
  Scenario renamed = selene_2021("1T");
  renamed.cluster.name = "ours";
  renamed.cluster.gpu.name = "our-gpu";
  renamed.stack.name = "our-stack";
  renamed.stack.reserve_fraction = 0.1;
  renamed.stack.can_run.recompute = {Recompute::kFull};
  EXPECT_EQ(plan_training(renamed, options).calibration.num_runs(), 63);
}

/// Half of the interval of the best plan's time, over the time.
double half_width(const PlanningResult& result) {
  const Estimate<Seconds>& time = result.plans.front().predicted.iteration_time;
  return (time.high - time.low) / time.value / 2.0;
}

// The smallest run of that cluster and stack has 1.7 billion parameters.
TEST(PlanTraining, IsLessSureOfModelsUnlikeThoseOfItsRuns) {
  const PlanningResult tiny = plan_training(selene_2021("gpt-tiny"), {.gpus = 1});
  EXPECT_EQ(tiny.calibration.num_runs(), 64);
  EXPECT_GT(half_width(tiny), half_width(plan_training(selene_2021("76B"), {.gpus = 1024})));
}

TEST(PlanTraining, IsNotCalibratedWhereNothingIsPublished) {
  const PlanningResult result =
      plan_training(shipped_scenario("18B", "dgx-h100", "megatron-core-2024"), {.gpus = 64});
  EXPECT_FALSE(result.calibration.is_calibrated());
  EXPECT_EQ(result.calibration.factor, 1.0);
}

TEST(PlanTraining, RefusesWhatTheGpuCannotRun) {
  EXPECT_THROW((void)plan_training(shipped_scenario("1.7B", "jean-zay-v100", "megatron-core-2024"),
                                   {.gpus = 8}),
               Error);
}

TEST(PlanningJson, HasTheKeysThatToolsRead) {
  const nlohmann::json document = nlohmann::json::parse(to_json(trillion()));
  EXPECT_EQ(document["schema"], "ptdp.plans/1");
  // 12lh² + 13lh + (V+s)h + 2h
  EXPECT_EQ(document["inputs"]["model"]["parameters"].get<std::int64_t>(),
            12LL * 128 * 25600 * 25600 + 13LL * 128 * 25600 + 53248LL * 25600 + 2LL * 25600);
  const nlohmann::json& candidates = document["candidates"];
  std::int64_t rejected = 0;
  for (const auto& violation : candidates["violations"].items()) {
    rejected += violation.value().get<std::int64_t>();
  }
  EXPECT_EQ(candidates["enumerated"].get<std::int64_t>(),
            candidates["feasible"].get<std::int64_t>() + rejected);
  const nlohmann::json& plan = document["plans"].at(0);
  for (const char* key : {"tp", "pp", "dp", "cp", "ep", "vpp", "micro_batch_size", "schedule",
                          "recompute", "sequence_parallel", "zero_stage"}) {
    EXPECT_TRUE(plan["config"].contains(key)) << key;
  }
  for (const char* key : {"iteration_time_s", "interval_s", "tflops_per_gpu", "mfu", "hfu",
                          "tokens_per_s", "breakdown_s"}) {
    EXPECT_TRUE(plan["predicted"].contains(key)) << key;
  }
  for (const char* key : {"peak_GiB", "heaviest_stage", "stages"}) {
    EXPECT_TRUE(plan["memory"].contains(key)) << key;
  }
  double sum = 0.0;
  for (const auto& term : plan["predicted"]["breakdown_s"].items()) {
    sum += term.value().get<double>();
  }
  EXPECT_NEAR(sum, plan["predicted"]["iteration_time_s"].get<double>(), 1e-9);
}

// By hand: tokens over tokens/s; 3072 GPUs for that time; 2 per GPU-hour.
TEST(PlanningJson, HoldsTheWholeTrainingWhereTokensAreGiven) {
  const nlohmann::json plan = nlohmann::json::parse(to_json(
      trillion(), {.tokens = 450e9, .price_per_gpu_hour = 2.0}))["plans"]
                                  .at(0);
  const nlohmann::json& training = plan["training"];
  const double seconds = 450e9 / plan["predicted"]["tokens_per_s"].get<double>();
  EXPECT_NEAR(training["time_s"].get<double>(), seconds, 1e-6 * seconds);
  EXPECT_NEAR(training["gpu_hours"].get<double>(), 3072.0 * seconds / 3600.0, 1e-3 * seconds);
  EXPECT_NEAR(training["cost"].get<double>(), 2.0 * 3072.0 * seconds / 3600.0, 1e-3 * seconds);
  EXPECT_LT(training["interval_s"][0], training["time_s"]);
  EXPECT_GT(training["interval_s"][1], training["time_s"]);
  EXPECT_FALSE(nlohmann::json::parse(to_json(trillion()))["plans"].at(0).contains("training"));
}

TEST(PlanningCsv, HasOneLinePerPlan) {
  const std::string text = to_csv(trillion());
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1 + 5);
  EXPECT_THAT(text, HasSubstr("\n8,64,6,1,1,1f1b,full,0,0,3072,"));
}

TEST(PlanningCsv, HasAsManyFieldsInEveryLine) {
  for (const RunBudget& budget : {RunBudget{}, RunBudget{.tokens = 1e9},
                                  RunBudget{.tokens = 1e9, .price_per_gpu_hour = 2.0}}) {
    std::istringstream lines(to_csv(trillion(), budget));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_EQ(std::count(line.begin(), line.end(), ','), 32) << line;
    }
  }
}

}  // namespace
}  // namespace ptdp
