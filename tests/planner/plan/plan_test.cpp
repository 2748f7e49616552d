#include "planner/plan/plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/schedule/validator/validator.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

Plan trillion_plan() {
  return make_plan(selene_2021("1T"), 3079, 0.01,
                   {.tp = 16,
                    .pp = 32,
                    .dp = 6,
                    .vpp = 2,
                    .schedule = ScheduleKind::kInterleaved,
                    .recompute = Recompute::kFull},
                   {.support = {.num_runs = 9}, .factor = 1.035, .interval = {0.96, 1.04}});
}

std::string message_of_plan(const std::string& text) {
  try {
    (void)parse_plan(text, "plan.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kBadInput);
    return error.what();
  }
  return "accepted";
}

/// The plan with the first `from` replaced.
std::string edited(const std::string& from, const std::string& to) {
  std::string text = to_json(trillion_plan());
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Plan, ReadsBackAsTheSameBytes) {
  const std::string text = to_json(trillion_plan());
  EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text);
}

TEST(Plan, OfSharedSequencesReadsBackAsTheSameBytes) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "meta-llama3", 64);
  scenario.stack.can_run.zero_stages = {0};
  const std::string text =
      to_json(make_plan(scenario, 64, 0.0, {.tp = 8, .dp = 2, .cp = 4}, Calibration{}));
  EXPECT_THAT(text, HasSubstr("\"context_parallel\": "));
  EXPECT_THAT(text, HasSubstr("\"context_parallel_bytes\": "));
  EXPECT_THAT(text, HasSubstr("\"context_parallel_kind\": \"all-gather\""));
  EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text);
}

// 61 layers, three of them dense, in 16 stages; 256 experts on 64 GPUs.
TEST(Plan, OfDeepSeekV3ReadsBackAsTheSameBytes) {
  std::vector<int> layers(16, 4);
  std::fill_n(layers.begin(), 3, 3);
  const Plan plan =
      make_plan(shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025"), 1024, 0.0,
                {.pp = 16,
                 .dp = 64,
                 .ep = 64,
                 .recompute = Recompute::kFull,
                 .zero_stage = 1,
                 .layers_per_stage = layers},
                {});
  EXPECT_GT(plan.predicted.traffic.expert_parallel, Bytes(0.0));
  const std::string text = to_json(plan);
  EXPECT_THAT(text, HasSubstr("\"expert_parallel_bytes\": "));
  EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text);
}

// MFU is of the peak of 8 bits, twice that of bf16.
TEST(Plan, OfLinearLayersIn8BitsReadsBackAsTheSameBytes) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-bridge-2025", 64);
  scenario.stack = with_fp8(scenario.stack, "fp8");
  const ParallelConfig config = {.tp = 2, .dp = 4, .sequence_parallel = true, .zero_stage = 1};
  const Plan plan = make_plan(scenario, 8, 0.0, config, {});
  const FlopsPerSecond rate = plan.predicted.model_flops / plan.predicted.iteration_time.value;
  EXPECT_DOUBLE_EQ(plan.predicted.mfu.value, rate.value() / 8.0 / 1978.9e12);
  const std::string text = to_json(plan);
  EXPECT_THAT(text, HasSubstr("\"fp8\": \"fp8-current\""));
  EXPECT_EQ(parse_plan(text, "plan.json").scenario, scenario);
  EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text);
}

TEST(Plan, HoldsItsInputsByValue) {
  const Plan plan = parse_plan(to_json(trillion_plan()), "plan.json");
  EXPECT_EQ(plan.scenario, selene_2021("1T"));
  EXPECT_EQ(plan.gpus, 3079);
  // Costing it again from what it holds gives what it says.
  const Prediction again =
      predict(plan.scenario, plan.config, {.factor = plan.predicted.calibration_factor});
  EXPECT_NEAR(again.iteration_time.value / plan.predicted.iteration_time.value, 1.0, 1e-12);
}

// 128 layers in 32·2 virtual stages.
TEST(Plan, HoldsTheRecipeOfTheSchedule) {
  const Plan plan = trillion_plan();
  EXPECT_EQ(plan.schedule.generator, "interleaved");
  EXPECT_EQ(plan.schedule.num_microbatches, 512);
  EXPECT_EQ(plan.schedule.microbatch_group_size, 32);
  EXPECT_EQ(plan.schedule.layers_per_stage, std::vector<int>(64, 2));
  EXPECT_EQ(plan.memory.stages.size(), 32U);
}

/// 14.6B's shape on eight stages whose ends have a layer less.
Plan searched_plan(int memory_limit) {
  Scenario scenario = shipped_scenario("7.5B", "roce-a100", "zero-bubble-2023", 24);
  scenario.job.model.num_layers = 30;
  return make_plan(scenario, 8, 0.0,
                   {.pp = 8,
                    .schedule = ScheduleKind::kZbAuto,
                    .recompute = Recompute::kFull,
                    .layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 3},
                    .memory_limit = memory_limit},
                   {});
}

TEST(Plan, HoldsWhatItsScheduleWasSearchedWith) {
  const Plan plan = searched_plan(15);
  const std::vector<StageTicks>& ticks = plan.schedule.ticks;
  ASSERT_EQ(ticks.size(), 8U);
  EXPECT_EQ(plan.schedule.memory_limit, 15);
  EXPECT_TRUE(plan.schedule.shortens_spans);  // ranks go on by themselves
  EXPECT_GT(plan.schedule.message_ticks, 0);
  // Forward and, but for what is recomputed, each gradient are products of one size; stages in the
  // middle are equal, and the first has three layers for their four, and the embedding.
  EXPECT_EQ(ticks[1], ticks[6]);
  EXPECT_NEAR(1.0 * ticks[1].input_gradient / ticks[1].forward, 2.0, 0.3);
  EXPECT_NEAR(1.0 * ticks[0].weight_gradient / ticks[1].weight_gradient, 0.75, 1e-3);
  EXPECT_GT(ticks[7].weight_gradient, ticks[0].weight_gradient);  // the logits
  const std::string text = to_json(plan);
  const Plan again = parse_plan(text, "plan.json");
  EXPECT_EQ(again.schedule, plan.schedule);
  EXPECT_EQ(again.config, plan.config);
  EXPECT_EQ(to_json(again), text);
}

TEST(Plan, HasNoKeysOfASearchThatItsScheduleIsWithout) {
  const std::string text = to_json(trillion_plan());
  for (const char* key : {"ticks", "memory_limit", "shortens_spans"}) {
    EXPECT_THAT(text, testing::Not(HasSubstr(key)));
  }
}

TEST(Plan, MakesASearchedScheduleWithinItsLimit) {
  for (const int limit : {1, 8, 15, 16}) {
    const Plan plan = searched_plan(limit);
    const Schedule schedule = make_schedule(plan.schedule, 8, 1);
    EXPECT_EQ(schedule.num_microbatches, 24);
    const auto fault = find_fault(schedule, std::vector<int>(8, limit));
    EXPECT_FALSE(fault.has_value()) << limit << ": " << fault->message();
  }
}

TEST(Plan, RefusesASearchThatItsConfigurationDoesNotStandFor) {
  using nlohmann::ordered_json;
  const ordered_json plan = ordered_json::parse(to_json(searched_plan(15)));
  const auto with = [&](const char* pointer, const ordered_json& value,
                        const char* version = nullptr) {
    ordered_json edited = plan;
    edited[ordered_json::json_pointer(pointer)] = value;
    if (version != nullptr) {
      edited["tool_version"] = version;
    }
    return message_of_plan(edited.dump());
  };
  const char* const other = "schedule: is not the one of this configuration";
  EXPECT_THAT(with("/schedule/memory_limit", 8), HasSubstr(other));
  EXPECT_THAT(with("/config/memory_limit", 8), HasSubstr(other));
  EXPECT_THAT(with("/schedule/ticks/3/forward", 1), HasSubstr(other));
  EXPECT_THAT(with("/schedule/message_ticks", 0), HasSubstr(other));
  EXPECT_THAT(with("/schedule/shortens_spans", false), HasSubstr(other));
  EXPECT_THAT(with("/schedule/ticks/3/forward", 0), HasSubstr("ticks"));
  EXPECT_THAT(with("/config/memory_limit", 0), HasSubstr("memory_limit"));
  // Another version may have timed stages otherwise, but has as many.
  EXPECT_EQ(with("/schedule/ticks/3/forward", 1, "0.0.9"), "accepted");
  EXPECT_THAT(with("/schedule/ticks", ordered_json::array(), "0.0.9"), HasSubstr(other));
}

TEST(Plan, RefusesOtherVersions) {
  EXPECT_THAT(message_of_plan(edited("ptdp.plan/1", "ptdp.plan/2")),
              HasSubstr("make the plan again with this version"));
}

TEST(Plan, RefusesEditsThatCannotBe) {
  EXPECT_THAT(message_of_plan(edited("\"tp\": 16", "\"tp\": 7")), HasSubstr("not divisible by tp"));
  EXPECT_THAT(message_of_plan(edited("\"dp\": 6", "\"dp\": 12")), HasSubstr("GPUs of 3079"));
  EXPECT_THAT(message_of_plan(edited("\"cp\": 1", "\"cp\": 2")),
              HasSubstr("not run by this stack"));
  EXPECT_THAT(message_of_plan(edited("\"num_microbatches\": 512", "\"num_microbatches\": 511")),
              HasSubstr("schedule"));
  EXPECT_THAT(message_of_plan(edited("\"heaviest_stage\": 0", "\"heaviest_stage\": 64")),
              HasSubstr("there is no stage 64"));
  EXPECT_THAT(message_of_plan(edited("\"layers_per_stage\": []", "\"layers_per_stage\": [128]")),
              HasSubstr("layers_per_stage"));
  EXPECT_THAT(message_of_plan(edited(
                  "\"layers_per_stage\": []", "\"layers_per_stage\": [" +
                                                  [] {
                                                    std::string ones = "1";
                                                    for (int stage = 1; stage < 128; ++stage) {
                                                      ones += ",1";
                                                    }
                                                    return ones;
                                                  }() +
                                                  "]")),
              HasSubstr("expected [] where all are equal"));
  EXPECT_THAT(message_of_plan(edited("\"gpus\"", "\"gpu\"")), HasSubstr("missing"));
}

TEST(Plan, RefusesPredictionsThatDoNotFollowFromItsInputs) {
  using nlohmann::ordered_json;
  const ordered_json plan = ordered_json::parse(to_json(trillion_plan()));
  const auto with = [&](const char* pointer, const ordered_json& value) {
    ordered_json edited = plan;
    edited[ordered_json::json_pointer(pointer)] = value;
    return message_of_plan(edited.dump());
  };
  EXPECT_THAT(with("/predicted/hardware_flops", 1e3), HasSubstr("predicted.hardware_flops"));
  EXPECT_THAT(with("/predicted/model_flops", 1e3), HasSubstr("predicted.model_flops"));
  EXPECT_THAT(with("/predicted/traffic/pipeline_bytes", 1.0), HasSubstr("traffic.pipeline_bytes"));
  EXPECT_THAT(with("/predicted/extrapolations", {"none"}), HasSubstr("predicted.extrapolations"));
  EXPECT_THAT(with("/predicted/mfu_interval", {0.1, 0.9}), HasSubstr("predicted.mfu_interval"));
  EXPECT_THAT(with("/memory/heaviest_stage", 3), HasSubstr("memory"));
  EXPECT_THAT(with("/memory/stages/5/weights_GiB", 1.0), HasSubstr("memory.stages.5.weights_GiB"));
  EXPECT_THAT(with("/predicted/interval_s", {0.0, 200.0}), HasSubstr("predicted.interval_s"));
  EXPECT_THAT(with("/predicted/interval_s", {1.0, 1e9}), HasSubstr("predicted.interval_s"));
  EXPECT_THAT(with("/predicted/calibration_runs", 2), HasSubstr("predicted.calibration_runs"));
  // Of another version only what it says of itself can be checked.
  ordered_json older = plan;
  older["tool_version"] = "0.0.9";
  older["predicted"]["breakdown_s"]["matmul"] = 1.0;
  EXPECT_THAT(message_of_plan(older.dump()), HasSubstr("does not add up"));
}

TEST(Plan, BelievesItsCalibrationButNotAnIntervalWithoutOne) {
  const std::string calibrated = to_json(trillion_plan());
  EXPECT_EQ(message_of_plan(calibrated), "accepted");
  nlohmann::ordered_json bare = nlohmann::ordered_json::parse(
      to_json(make_plan(selene_2021("1T"), 3072, 0.0, trillion_plan().config, {})));
  EXPECT_EQ(message_of_plan(bare.dump()), "accepted");
  bare["predicted"]["interval_s"] = {1.0, 1e6};
  EXPECT_THAT(message_of_plan(bare.dump()), HasSubstr("interval_s"));
}

}  // namespace
}  // namespace ptdp
