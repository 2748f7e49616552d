// Tests of the answer to a planning request.
#include "planner/answer/planning.h"

#include <gmock/gmock.h>

#include <sstream>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/error.h"
#include "cost_model/text/csv_table.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

PlanningResult trillion() {
  return plan_training(selene_2021("1T"), {.gpus = 3072});
}

TEST(PlanTraining, LeavesThePublishedRunOutOfItsOwnCalibration) {
  // Ten rows of SC21 table 1 and 54 of its figures, one of them this very run.
  EXPECT_EQ(trillion().calibration.support.num_runs, 63);
  EXPECT_EQ(plan_training(selene_2021("1T"), {.gpus = 1536}).calibration.support.num_runs, 64);
}

TEST(PlanTraining, SetsThePublishedRunBesideIt) {
  const PlanningResult result = trillion();
  ASSERT_EQ(result.published.size(), 1U);
  EXPECT_EQ(result.published.front().run.id, "sc21-t1-1T");
  EXPECT_TRUE(result.published.front().is_same_stack);
  // The published run's prediction is calibrated as ours is, whatever the row says of overlap.
  EXPECT_EQ(result.published.front().predicted.support.num_runs, 63);
}

// What a profile is called says nothing of what it describes.
TEST(PlanTraining, IsCalibratedByRunsOnTheSameHardwareAndSoftwareOnly) {
  const SearchOptions options{.gpus = 3072};
  Scenario slower = selene_2021("1T");
  slower.cluster.nic.bandwidth = gigabytes_per_second(3.0);
  EXPECT_EQ(plan_training(slower, options).calibration.support.num_runs, 0);
  EXPECT_FALSE(plan_training(slower, options).published.front().is_same_stack);
  Scenario faster = selene_2021("1T");
  faster.stack.fused_gradient_accumulation = true;
  EXPECT_EQ(plan_training(faster, options).calibration.support.num_runs, 0);
  Scenario renamed = selene_2021("1T");
  renamed.cluster.name = "ours";
  renamed.cluster.gpu.name = "our-gpu";
  renamed.stack.name = "our-stack";
  renamed.stack.reserve_fraction = 0.1;
  renamed.stack.can_run.recompute = {Recompute::kFull};
  EXPECT_EQ(plan_training(renamed, options).calibration.support.num_runs, 63);
}

/// Returns half of the interval of the best plan's time, divided by the time.
double half_width(const PlanningResult& result) {
  const Estimate<Seconds>& time = result.plans.front().predicted.iteration_time;
  return (time.high - time.low) / time.value / 2.0;
}

// The smallest run of that cluster and stack has 1.7 billion parameters.
TEST(PlanTraining, IsLessSureOfModelsUnlikeThoseOfItsRuns) {
  const PlanningResult tiny = plan_training(selene_2021("gpt-tiny"), {.gpus = 1});
  EXPECT_EQ(tiny.calibration.support.num_runs, 64);
  EXPECT_GT(half_width(tiny), half_width(plan_training(selene_2021("76B"), {.gpus = 1024})));
}

// Nothing is published of that stack there: what its kind of program needs elsewhere stands in, and
// is worth less.
TEST(PlanTraining, RestsOnItsKindOfProgramWhereNothingIsPublished) {
  const PlanningResult result =
      plan_training(shipped_scenario("18B", "meta-a100", "megatron-lm-2023"), {.gpus = 64});
  EXPECT_EQ(result.calibration.support.stack_runs, 0);
  EXPECT_GT(result.calibration.support.program_runs, 1000);
  EXPECT_GT(result.calibration.factor, 1.0);
  EXPECT_GT(half_width(result), 0.2);
  EXPECT_THAT(result.plans.front().predicted.outside_runs,
              testing::ElementsAre("no measured run of this stack"));
}

TEST(PlanTraining, IsNotCalibratedForThisProjectsRuntime) {
  const PlanningResult result =
      plan_training(shipped_scenario("gpt-tiny", "hgx-h200", "ptdp-cuda"), {.gpus = 8});
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
  EXPECT_EQ(plan["formulas"][0]["key"], "bubble_fraction");
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
      EXPECT_EQ(std::count(line.begin(), line.end(), ','), 33) << line;
    }
  }
}

/// Returns an answer whose every figure differs from the others, so that columns can be told apart.
PlanningResult made_up_answer() {
  PlanningResult result{
      .scenario = selene_2021("1T"), .options = {.gpus = 4000}, .calibration = {.factor = 2.0}};
  const ParallelConfig planned{.tp = 8, .pp = 64, .dp = 6, .recompute = Recompute::kFull};
  Plan plan = make_plan({result.scenario, planned}, 4000, 0.0, {});
  plan.config = {.tp = 2,
                 .pp = 3,
                 .dp = 4,
                 .cp = 5,
                 .ep = 6,
                 .etp = 7,
                 .vpp = 8,
                 .micro_batch_size = 9,
                 .schedule = ScheduleKind::kGPipe,
                 .recompute = Recompute::kFull,
                 .recompute_method = RecomputeMethod::kUniform,
                 .recompute_num_layers = 10,
                 .sequence_parallel = true,
                 .zero_stage = 3,
                 .dp_replicate = 11,
                 .reshard_after_forward = false,
                 .offload = Offload::kActivations,
                 .offload_num_layers = 12};
  plan.predicted.iteration_time = {
      .value = Seconds(20.0), .low = Seconds(18.0), .high = Seconds(24.0)};
  plan.predicted.per_gpu = {
      .value = teraflops(160.0), .low = teraflops(1.0), .high = teraflops(1.0)};
  plan.predicted.mfu.value = 0.375;
  plan.predicted.hfu.value = 0.5;
  plan.predicted.tokens_per_second = {.value = 1e6, .low = 5e5, .high = 2e6};
  plan.memory = {.heaviest_rank = 0, .stages = {{.weights = gibibytes(50.0)}}};
  result.plans = {plan};
  result.search.best = {{planned, Seconds(10.0), gibibytes(50.0)}};
  result.search.pareto = {{planned, Seconds(10.0), gibibytes(50.0)}};
  result.baselines = {{.name = "a rule",
                       .source = "a book",
                       .choice = Candidate{planned, Seconds(12.5), gibibytes(40.0)}},
                      {.name = "another"}};
  return result;
}

// 36e9 tokens at 1e6 a second are 10 hours, 1200 of 2·3·4·5 GPUs, at 2 each.
TEST(PlanningCsv, HasEachFigureUnderItsName) {
  const auto table = [](const RunBudget& budget) {
    return CsvTable::from_text(to_csv(made_up_answer(), budget), "csv");
  };
  const CsvTable csv = table({.tokens = 36e9, .price_per_gpu_hour = 2.0});
  const std::vector<std::pair<const char*, const char*>> expected = {
      {"tp", "2"},
      {"pp", "3"},
      {"dp", "4"},
      {"vpp", "8"},
      {"micro_batch_size", "9"},
      {"schedule", "gpipe"},
      {"recompute", "full"},
      {"sequence_parallel", "1"},
      {"zero_stage", "3"},
      {"gpus_used", "120"},
      {"iteration_time_s", "20"},
      {"iteration_time_low_s", "18"},
      {"iteration_time_high_s", "24"},
      {"tflops_per_gpu", "160"},
      {"mfu", "0.375"},
      {"hfu", "0.5"},
      {"tokens_per_s", "1e+06"},
      {"peak_GiB", "50"},
      {"training_s", "36000"},
      {"gpu_hours", "1200"},
      {"cost", "2400"},
      {"run_by_stack", "0"},
      {"ep", "6"},
      {"etp", "7"},
      {"cp", "5"},
      {"dp_replicate", "11"},
      {"reshard_after_forward", "0"},
      {"recompute_modules", ""},
      {"recompute_method", "uniform"},
      {"recompute_num_layers", "10"},
      {"offload", "activations"},
      {"offload_num_layers", "12"},
      {"probability_of_fitting", ""},
      {"proven", "1"}};
  ASSERT_EQ(csv.columns().size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(csv.columns()[i], expected[i].first);
    EXPECT_EQ(csv.text(0, expected[i].first), expected[i].second) << expected[i].first;
  }
  EXPECT_EQ(table({.tokens = 36e9}).text(0, "cost"), "");
  EXPECT_EQ(table({.tokens = 36e9}).text(0, "gpu_hours"), "1200");
  EXPECT_EQ(table({}).text(0, "training_s"), "");
  PlanningResult result = made_up_answer();
  result.search.is_proven = false;
  ParallelConfig& config = result.plans[0].config;
  config = {.pp = 2,
            .recompute = Recompute::kSelective,
            .recompute_modules = {RecomputeModule::kCoreAttention, RecomputeModule::kMlp}};
  const CsvTable selective = CsvTable::from_text(to_csv(result), "csv");
  EXPECT_EQ(selective.text(0, "recompute_modules"), "core_attn+mlp");
  EXPECT_EQ(selective.text(0, "recompute_method"), "");
  EXPECT_EQ(selective.text(0, "run_by_stack"), "1");
  EXPECT_EQ(selective.text(0, "reshard_after_forward"), "1");
  EXPECT_EQ(selective.text(0, "offload_num_layers"), "");
  EXPECT_EQ(selective.text(0, "proven"), "0");
  result.plans[0].memory.beyond.support.all_runs = 1;
  result.plans[0].memory.probability_of_fitting = 0.875;
  EXPECT_EQ(CsvTable::from_text(to_csv(result), "csv").text(0, "probability_of_fitting"), "0.875");
}

// Candidates are calibrated by 2; a rule that takes 12.5 s loses a quarter against 10 s.
TEST(PlanningJson, HoldsCandidatesCalibratedAndRulesBesideThem) {
  using Json = nlohmann::json;
  PlanningResult result = made_up_answer();
  result.search.enumerated = 5;
  result.search.feasible = 2;
  result.search.violations = {{Constraint::kHeadsByTp, 3}};
  Json json = Json::parse(to_json(result, {.tokens = 36e9, .price_per_gpu_hour = 2.0}));
  EXPECT_EQ(json["plans"][0]["gpus_used"], 120);
  EXPECT_EQ(json["plans"][0]["run_by_stack"], false);
  EXPECT_EQ(json["plans"][0]["changes_semantics"], false);
  EXPECT_EQ(json["plans"][0]["training"], (Json{{"tokens", 36e9},
                                                {"time_s", 36000.0},
                                                {"interval_s", {18000.0, 72000.0}},
                                                {"gpu_hours", 1200.0},
                                                {"gpu_hours_interval", {600.0, 2400.0}},
                                                {"cost", 2400.0},
                                                {"cost_interval", {1200.0, 4800.0}}}));
  EXPECT_EQ(json["pareto"][0]["iteration_time_s"], 20.0);
  EXPECT_EQ(json["pareto"][0]["peak_GiB"], 50.0);
  EXPECT_EQ(json["baselines"][0]["choice"]["iteration_time_s"], 25.0);
  EXPECT_EQ(json["baselines"][0]["source"], "a book");
  EXPECT_EQ(json["baselines"][0]["loss"], 0.25);
  EXPECT_EQ(json["baselines"][0]["gpus_used"],
            result.baselines[0].choice.value().config.world_size());
  EXPECT_EQ(json["baselines"][1], (Json{{"name", "another"}, {"source", ""}, {"fits", false}}));
  EXPECT_EQ(json["candidates"]["enumerated"], 5);
  EXPECT_EQ(json["candidates"]["feasible"], 2);
  EXPECT_EQ(json["candidates"]["violations"]["heads_by_tp"], 3);
  EXPECT_EQ(json["candidates"]["violations"]["ffn_by_tp"], 0);
  EXPECT_EQ(json["candidates"]["complete"], true);
  EXPECT_FALSE(json["candidates"].contains("least_unseen_s"));
  EXPECT_FALSE(json["candidates"].contains("smallest_shortfall_bytes"));
  result.search.unseen = Unseen{.least_time = Seconds(7.0), .least_score = 1.0};
  result.search.is_proven = false;
  result.search.shortfall = MemoryShortfall{.config = {}, .missing = Bytes(123.0)};
  result.plans[0].config.schedule = ScheduleKind::kPipeDream;
  json = Json::parse(to_json(result));
  EXPECT_EQ(json["plans"][0]["changes_semantics"], true);
  EXPECT_EQ(json["candidates"]["complete"], false);
  EXPECT_EQ(json["candidates"]["proven"], false);
  EXPECT_EQ(json["candidates"]["least_unseen_s"], 14.0);
  EXPECT_EQ(json["candidates"]["smallest_shortfall_bytes"], 123.0);
}

}  // namespace
}  // namespace ptdp
