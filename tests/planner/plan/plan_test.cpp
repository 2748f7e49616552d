// Tests of plan files: written, read and refused.
#include "planner/plan/plan.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/stack_precision.h"
#include "cost_model/schedule/validator/validator.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::HasSubstr;

Plan trillion_plan() {
  return make_plan({selene_2021("1T"),
                    {.tp = 16,
                     .pp = 32,
                     .dp = 6,
                     .vpp = 2,
                     .schedule = ScheduleKind::kInterleaved,
                     .recompute = Recompute::kFull}},
                   3079, 0.01,
                   {.support = {.num_runs = 9, .stack_runs = 9, .program_runs = 20, .all_runs = 20},
                    .factor = 1.035,
                    .interval = {0.96, 1.04}});
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

/// Returns the plan's text with the first `from` replaced.
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

/// Returns the plan with a belief that no more than a few GiB lie beyond the formulas, which say 71
/// GiB and more.
Plan plan_with_belief(double degrees = 3.5, double expected_gib = 1.25) {
  const Plan plain = trillion_plan();
  const MemoryBelief beyond = {
      .support = {.num_runs = 2, .stack_runs = 2, .program_runs = 60, .all_runs = 87},
      .expected = Bytes(expected_gib * kGibi),
      .deviation = Bytes(2.5 * kGibi),
      .degrees = degrees};
  return make_plan({plain.scenario, plain.config}, plain.gpus, plain.memory_headroom,
                   calibration_of(plain), beyond);
}

TEST(Plan, HoldsWhatRunsSayOfItsMemory) {
  const Plan plan = plan_with_belief();
  EXPECT_GT(plan.memory.probability_of_fitting, 0.5);
  const std::string text = to_json(plan);
  const Plan read = parse_plan(text, "plan.json");
  EXPECT_EQ(to_json(read), text);
  EXPECT_EQ(read.memory.beyond.support.all_runs, 87);
  std::string other = text;
  const std::string key = "\"probability_of_fitting\": ";
  other.replace(other.find(key) + key.size(), 3, "0.1");
  EXPECT_THAT(message_of_plan(other), HasSubstr("memory.probability_of_fitting"));
}

// An end near 0 is the small difference of numbers that are written to fifteen digits.
TEST(Plan, HoldsAnIntervalOfMemoryWithAnEndNearZero) {
  constexpr double half_width_gib = 2.5 * 6.313752;
  for (int i = 1; i <= 50; ++i) {
    const std::string text = to_json(plan_with_belief(1.0, half_width_gib - i / 7.0));
    EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text) << i;
  }
}

// With one degree of freedom 95 % lie below tan(0.45π) = 6.31375 deviations of 2.5 GiB.
TEST(Plan, RefusesAnIntervalOfMemoryThatDoesNotFollow) {
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(to_json(plan_with_belief(1.0)));
  nlohmann::ordered_json& interval = document["memory"]["beyond_formulas"]["interval_GiB"];
  EXPECT_NEAR(interval[0].get<double>(), 1.25 - 2.5 * 6.313752, 1e-5);
  EXPECT_NEAR(interval[1].get<double>(), 1.25 + 2.5 * 6.313752, 1e-5);
  interval = {-14.0, 17.0344};
  EXPECT_EQ(message_of_plan(document.dump()),
            "plan.json: memory.beyond_formulas.interval_GiB: expected [-14.5344, 17.0344], which "
            "follows from the other keys, got [-14, 17.0344]; was the plan edited?");
  interval = {-14.5344};
  EXPECT_THAT(message_of_plan(document.dump()), HasSubstr("interval_GiB: expected [-14.5344, "));
}

TEST(Plan, RefusesABeliefAboutMemoryWithoutRuns) {
  nlohmann::ordered_json document = nlohmann::ordered_json::parse(to_json(plan_with_belief()));
  nlohmann::ordered_json& beyond = document["memory"]["beyond_formulas"];
  beyond["calibration_runs"] = 0;
  for (const char* key :
       {"calibration_stack_runs", "calibration_program_runs", "calibration_all_runs"}) {
    beyond.erase(key);
  }
  EXPECT_THAT(message_of_plan(document.dump()),
              HasSubstr("memory.beyond_formulas.calibration_all_runs: expected 1 run"));
}

TEST(Plan, OfSharedSequencesReadsBackAsTheSameBytes) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "meta-llama3", 64);
  scenario.stack.can_run.zero_stages = {0};
  const std::string text =
      to_json(make_plan({scenario, {.tp = 8, .dp = 2, .cp = 4}}, 64, 0.0, Calibration{}));
  EXPECT_THAT(text, HasSubstr("\"context_parallel\": "));
  EXPECT_THAT(text, HasSubstr("\"context_parallel_bytes\": "));
  EXPECT_THAT(text, HasSubstr("\"context_parallel_kind\": \"all-gather\""));
  EXPECT_EQ(to_json(parse_plan(text, "plan.json")), text);
}

// 61 layers, three of them dense, in 16 stages; 256 experts on 64 GPUs.
TEST(Plan, OfDeepSeekV3ReadsBackAsTheSameBytes) {
  std::vector<int> layers(16, 4);
  std::fill_n(layers.begin(), 3, 3);
  const Plan plan = make_plan({shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025"),
                               {.pp = 16,
                                .dp = 64,
                                .ep = 64,
                                .recompute = Recompute::kFull,
                                .zero_stage = 1,
                                .layers_per_stage = layers}},
                              1024, 0.0, {});
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
  const Plan plan = make_plan({scenario, config}, 8, 0.0, {});
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
      predict({plan.scenario, plan.config}, {.factor = plan.predicted.calibration_factor});
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

/// Returns a plan of the 14.6B model's shape on eight stages, of which the first and the last have
/// a layer less.
Plan searched_plan(int memory_limit) {
  Scenario scenario = shipped_scenario("7.5B", "roce-a100", "zero-bubble-2023", 24);
  scenario.job.model.num_layers = 30;
  return make_plan({scenario,
                    {.pp = 8,
                     .schedule = ScheduleKind::kZbAuto,
                     .recompute = Recompute::kFull,
                     .layers_per_stage = {3, 4, 4, 4, 4, 4, 4, 3},
                     .memory_limit = memory_limit}},
                   8, 0.0, {});
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
  EXPECT_THAT(with("/predicted/calibration_all_runs", 2), HasSubstr("calibration_all_runs"));
  // A plan of another version can only be checked against what it says of itself.
  ordered_json older = plan;
  older["tool_version"] = "0.0.9";
  older["predicted"]["breakdown_s"]["matmul"] = 1.0;
  EXPECT_THAT(message_of_plan(older.dump()), HasSubstr("does not add up"));
}

TEST(Plan, BelievesItsCalibrationButNotAnIntervalWithoutOne) {
  const std::string calibrated = to_json(trillion_plan());
  EXPECT_EQ(message_of_plan(calibrated), "accepted");
  nlohmann::ordered_json bare = nlohmann::ordered_json::parse(
      to_json(make_plan({selene_2021("1T"), trillion_plan().config}, 3072, 0.0, {})));
  EXPECT_EQ(message_of_plan(bare.dump()), "accepted");
  bare["predicted"]["interval_s"] = {1.0, 1e6};
  EXPECT_THAT(message_of_plan(bare.dump()), HasSubstr("interval_s"));
}

// The plans have whatever a configuration may say beyond its degrees, and what is optional in
// files.
TEST(Plan, OfEveryKindReadsBackAsItWas) {
  Scenario hybrid = shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024", 64);
  hybrid.stack.can_run.kept_weights = true;
  Scenario megatron = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  Scenario experts = shipped_scenario("mixtral-8x7b", "dgx-h100", "megatron-core-2025", 64);
  for (Scenario* scenario : {&hybrid, &megatron, &experts}) {
    scenario->job.model.seq_length = 1024;  // which fit whatever is recomputed
  }
  const Scenario vee = shipped_scenario("1.7B", "selene-a100", "zero-bubble-2023", 64);
  const std::vector<std::pair<Scenario, ParallelConfig>> plans = {
      {hybrid, {.dp = 16, .zero_stage = 3, .dp_replicate = 2, .reshard_after_forward = false}},
      {hybrid,
       {.dp = 16,
        .recompute = Recompute::kFull,
        .recompute_method = RecomputeMethod::kEvery,
        .recompute_num_layers = 3,
        .zero_stage = 3}},
      {megatron,
       {.tp = 2,
        .dp = 4,
        .recompute = Recompute::kSelective,
        .recompute_modules = {RecomputeModule::kCoreAttention, RecomputeModule::kMlp},
        .sequence_parallel = true,
        .zero_stage = 1}},
      {megatron,
       {.tp = 4, .dp = 2, .zero_stage = 1, .offload = Offload::kBoth, .offload_num_layers = 7}},
      {megatron,
       {.tp = 4,
        .pp = 2,
        .dp = 4,
        .rank_order = RankOrder::kTpCpEpPpDp,
        .layers_per_stage = {17, 15}}},
      {experts,
       {.tp = 2,
        .dp = 16,
        .ep = 4,
        .etp = 2,
        .recompute = Recompute::kFull,
        .sequence_parallel = true,
        .zero_stage = 1}},
      {vee, {.pp = 4, .dp = 2, .vpp = 2, .schedule = ScheduleKind::kZbV}}};
  for (const auto& [scenario, config] : plans) {
    const Plan plan = make_plan({scenario, config}, config.world_size(), 0.0, {});
    const std::string text = to_json(plan);
    const Plan again = parse_plan(text, "plan.json");
    EXPECT_EQ(to_json(again), text) << to_string(config);
    EXPECT_EQ(to_string(again.config), to_string(config));
    EXPECT_EQ(again.config, config) << to_string(config);
    EXPECT_EQ(again.scenario, scenario) << to_string(config);
    EXPECT_EQ(again.schedule, plan.schedule) << to_string(config);
    EXPECT_EQ(again.predicted.traffic.expert_parallel > Bytes(0.0), config.ep > 1);
  }
}

// 3072 GPUs are used: as many are enough. Of 80 GiB what a plan does not need may stay free.
TEST(Plan, UsesNoMoreGpusAndMemoryThanItHas) {
  const ParallelConfig config = trillion_plan().config;
  const auto of = [&](std::int64_t gpus, double headroom) {
    return message_of_plan(to_json(make_plan({selene_2021("1T"), config}, gpus, headroom, {})));
  };
  EXPECT_EQ(of(3072, 0.0), "accepted");
  EXPECT_THAT(of(3071, 0.0), HasSubstr("recompute=full: uses 3072 GPUs of 3071"));
  const double needed = trillion_plan().memory.peak() / selene_2021("1T").cluster.gpu.memory;
  EXPECT_EQ(of(3072, 1.0 - needed - 1e-6), "accepted");
  EXPECT_THAT(of(3072, 1.0 - needed + 1e-6), HasSubstr("out of memory on the first stage"));
}

// 16 stages of 8 layers are told by no number at all, and a vpp of 2 is not 1F1B's.
TEST(Plan, RefusesPartsOfAnotherPlan) {
  using nlohmann::ordered_json;
  const ordered_json plan = ordered_json::parse(to_json(trillion_plan()));
  const auto with = [&](const char* pointer, const ordered_json& value,
                        const char* version = PTDP_VERSION) {
    ordered_json edited = plan;
    edited[ordered_json::json_pointer(pointer)] = value;
    edited["tool_version"] = version;
    return message_of_plan(edited.dump());
  };
  EXPECT_THAT(with("/config/schedule", "1f1b"), HasSubstr("1f1b has another vpp"));
  EXPECT_THAT(with("/schedule/generator", "gpipe"),
              HasSubstr("schedule: is not the one of this configuration"));
  EXPECT_THAT(with("/schedule/microbatch_group_size", 16),
              HasSubstr("schedule: is not the one of this configuration"));
  EXPECT_THAT(with("/schedule/layers_per_stage/3", 1),
              HasSubstr("schedule: is not the one of this configuration"));
  EXPECT_THAT(with("/predicted/tflops_per_gpu_interval", {1.0}),
              HasSubstr("tflops_per_gpu_interval: expected two numbers, got 1"));
  EXPECT_THAT(with("/memory/peak_GiB", 1.0), HasSubstr("peak_GiB: is not the sum of its stage"));
  EXPECT_THAT(with("/memory_extra", 1.0), HasSubstr("memory_extra"));
  ordered_json stages = plan["memory"]["stages"];
  stages.erase(31);
  EXPECT_THAT(with("/memory/stages", stages),
              HasSubstr("memory.stages: expected 32 stages, got 31"));
  EXPECT_THAT(with("/inputs/memory_headroom", 1.0), HasSubstr("memory_headroom"));
}

// Factor and interval of a calibrated plan are read off what the plan says; other plans have none.
TEST(CalibrationOfAPlan, IsWhatThePlanSays) {
  const Calibration calibration = calibration_of(trillion_plan());
  EXPECT_EQ(calibration.support.num_runs, 9);
  EXPECT_EQ(calibration.factor, 1.035);
  EXPECT_NEAR(calibration.interval.low, 0.96, 1e-12);
  EXPECT_NEAR(calibration.interval.high, 1.04, 1e-12);
  Plan bare = trillion_plan();
  bare.predicted.support = {};
  EXPECT_FALSE(calibration_of(bare).is_calibrated());
  EXPECT_EQ(calibration_of(bare).factor, 1.0);
}

TEST(MakeSchedule, RefusesWhatNoGeneratorMakes) {
  const auto message = [](const ScheduleRecipe& recipe, int pp, int vpp) {
    try {
      (void)make_schedule(recipe, pp, vpp);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("made");
  };
  EXPECT_EQ(message({.generator = "dualpipe", .num_microbatches = 8}, 4, 1), "made");
  EXPECT_EQ(message({.generator = "dualpipe", .num_microbatches = 8}, 3, 1),
            "schedule: dualpipe: pp: expected an even number, got 3");
  EXPECT_THAT(message({.generator = "2f2b"}, 2, 1), HasSubstr("unknown schedule \"2f2b\""));
}

}  // namespace
}  // namespace ptdp
