#include "planner/plan.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cost_model/error.h"
#include "tests/cost_model/scenarios.h"

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

std::string message_of(const std::string& text) {
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

TEST(Plan, RefusesOtherVersions) {
  EXPECT_THAT(message_of(edited("ptdp.plan/1", "ptdp.plan/2")),
              HasSubstr("make the plan again with this version"));
}

TEST(Plan, RefusesEditsThatCannotBe) {
  EXPECT_THAT(message_of(edited("\"tp\": 16", "\"tp\": 7")), HasSubstr("not divisible by tp"));
  EXPECT_THAT(message_of(edited("\"dp\": 6", "\"dp\": 12")), HasSubstr("GPUs of 3079"));
  EXPECT_THAT(message_of(edited("\"cp\": 1", "\"cp\": 2")),
              HasSubstr("context and expert parallelism are not covered"));
  EXPECT_THAT(message_of(edited("\"num_microbatches\": 512", "\"num_microbatches\": 511")),
              HasSubstr("schedule"));
  EXPECT_THAT(message_of(edited("\"heaviest_stage\": 0", "\"heaviest_stage\": 64")),
              HasSubstr("there is no stage 64"));
  EXPECT_THAT(message_of(edited("\"layers_per_stage\": []", "\"layers_per_stage\": [128]")),
              HasSubstr("layers_per_stage"));
  EXPECT_THAT(message_of(edited(
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
  EXPECT_THAT(message_of(edited("\"gpus\"", "\"gpu\"")), HasSubstr("missing"));
}

TEST(Plan, RefusesPredictionsThatDoNotFollowFromItsInputs) {
  using nlohmann::ordered_json;
  const ordered_json plan = ordered_json::parse(to_json(trillion_plan()));
  const auto with = [&](const char* pointer, const ordered_json& value) {
    ordered_json edited = plan;
    edited[ordered_json::json_pointer(pointer)] = value;
    return message_of(edited.dump());
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
  EXPECT_THAT(message_of(older.dump()), HasSubstr("does not add up"));
}

TEST(Plan, BelievesItsCalibrationButNotAnIntervalWithoutOne) {
  const std::string calibrated = to_json(trillion_plan());
  EXPECT_EQ(message_of(calibrated), "accepted");
  nlohmann::ordered_json bare = nlohmann::ordered_json::parse(
      to_json(make_plan(selene_2021("1T"), 3072, 0.0, trillion_plan().config, {})));
  EXPECT_EQ(message_of(bare.dump()), "accepted");
  bare["predicted"]["interval_s"] = {1.0, 1e6};
  EXPECT_THAT(message_of(bare.dump()), HasSubstr("interval_s"));
}

}  // namespace
}  // namespace ptdp
