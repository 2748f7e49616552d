// Tests that reading undoes exports to Megatron-Bridge. The oracle is the plan that was exported.
#include <gmock/gmock.h>

#include <cmath>

#include "cost_model/inputs/stack_precision.h"
#include "cost_model/text/object_writer.h"
#include "planner/import/reader.h"
#include "tests/planner/export/exports.h"

namespace ptdp {
namespace {

using testing::IsEmpty;

Scenario bridge_scenario(const char* model, const char* stack, std::int64_t batch,
                         const char* fp8 = "") {
  Scenario scenario = shipped_scenario(model, "dgx-h100", stack, batch);
  if (*fp8 != '\0') {
    scenario.stack = with_fp8(scenario.stack, fp8);
  }
  return scenario;
}

Plan with_model(Plan plan, const RotaryEmbedding& rotary) {
  plan.scenario.job.model.rotary = rotary;
  return plan;
}

/// Plans that differ in how their models compute.
std::vector<Plan> plans_of_other_numerics() {
  const Plan plan =
      plan_of(bridge_scenario("llama-3-8b", "megatron-core-2025", 128), {.dp = 8, .zero_stage = 1});
  Plan windowed = plan_of(bridge_scenario("mistral-7b", "megatron-core-2025", 128), {.dp = 8});
  windowed.scenario.job.model.window_attn_skip_freq = 2;
  Plan latent =
      plan_of(bridge_scenario("deepseek-v3", "megatron-bridge-2025", 2048),
              {.pp = 16, .dp = 64, .ep = 64, .recompute = Recompute::kFull, .zero_stage = 1});
  latent.scenario.job.model.rotary = {.scaling = RopeScaling::kYarn,
                                      .factor = 40.0,
                                      .original_seq_length = 4096,
                                      .attention_factor = 1.0};
  latent.scenario.job.model.query_pre_attn_scalar =
      as_written(192.0 / std::pow(yarn_growth(40.0), 4.0));
  return {with_model(plan, {.base = 20000.0, .percent = 0.5}),
          with_model(plan, {.scaling = RopeScaling::kLinear, .factor = 2.0}),
          with_model(plan, {.base = 5e5,
                            .scaling = RopeScaling::kLlama3,
                            .factor = 32.0,
                            .original_seq_length = 8192}),
          with_model(plan, {.base = 1e6,
                            .scaling = RopeScaling::kYarn,
                            .factor = 4.0,
                            .original_seq_length = 2048,
                            .beta_fast = 16.0,
                            .beta_slow = 2.0}),
          plan_of(bridge_scenario("nemotron-4-15b", "megatron-core-2025", 128), {.dp = 8}),
          windowed,
          latent};
}

/// Plans that differ in everything that Megatron-Bridge expresses.
std::vector<Plan> exported_bridge_plans() {
  Scenario gpt = selene_2021("7.5B", 512);
  gpt.stack.can_run.rank_orders = {RankOrder::kTpCpEpPpDp};
  Scenario four_bits = shipped_scenario("llama-3-70b", "dgx-gb300", "megatron-bridge-2025", 256);
  four_bits.stack = with_fp8(four_bits.stack, "nvfp4");
  return {plan_of(bridge_scenario("llama-3-70b", "megatron-core-2025", 256),
                  {.tp = 4,
                   .pp = 4,
                   .dp = 4,
                   .vpp = 5,
                   .schedule = ScheduleKind::kInterleaved,
                   .recompute = Recompute::kSelective,
                   .sequence_parallel = true,
                   .zero_stage = 1}),
          plan_of(bridge_scenario("deepseek-v3", "megatron-bridge-2025", 2048),
                  {.pp = 16, .dp = 64, .ep = 64, .recompute = Recompute::kFull, .zero_stage = 1}),
          plan_of(bridge_scenario("mistral-7b", "megatron-bridge-2025", 64, "fp8"),
                  {.dp = 16, .recompute = Recompute::kFull, .zero_stage = 3}),
          plan_of(four_bits, {.pp = 4, .dp = 16, .zero_stage = 1}),
          plan_of(bridge_scenario("llama-3-8b", "megatron-core-2025", 128),
                  {.tp = 2,
                   .pp = 4,
                   .dp = 4,
                   .cp = 2,
                   .micro_batch_size = 2,
                   .sequence_parallel = true,
                   .zero_stage = 1,
                   .layers_per_stage = {7, 9, 9, 7}}),
          plan_of(gpt, {.tp = 2,
                        .pp = 2,
                        .dp = 4,
                        .recompute = Recompute::kFull,
                        .rank_order = RankOrder::kTpCpEpPpDp})};
}

TEST(BridgeRoundTrip, GivesThePlanBack) {
  for (const Plan& plan : exported_bridge_plans()) {
    SCOPED_TRACE(plan.scenario.job.model_name + " " + to_string(plan.config));
    ASSERT_THAT(fields_of(megatron_bridge_refusals(plan)), IsEmpty());
    const std::string file = content_of(megatron_bridge_export(plan), "plan_config.py");
    const ImportedRun run = read_run(file, "plan_config.py", plan.config.world_size());
    EXPECT_EQ(run.framework, "Megatron-Bridge");
    EXPECT_EQ(to_string(run.config), to_string(plan.config));
    EXPECT_EQ(run.config, plan.config);
    EXPECT_EQ(run.global_batch_size, plan.scenario.job.global_batch_size);
    EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
    ASSERT_TRUE(run.model) << run.missing;
    EXPECT_EQ(run.model->vocab_size, plan.scenario.job.model.vocab_size);
    EXPECT_EQ(*run.model, plan.scenario.job.model);
    const StackSpec stack = with_changes(plan.scenario.stack, run.stack);
    EXPECT_EQ(overlaps_reduction(stack, plan.config.pp),
              overlaps_reduction(plan.scenario.stack, plan.config.pp));
    EXPECT_EQ(stack.context_parallel_kind, plan.scenario.stack.context_parallel_kind);
    const Fp8Recipe* recipe = fp8_recipe(plan.scenario.stack);
    EXPECT_EQ(run.precision == "nvfp4", recipe != nullptr && recipe->scaling == Fp8Scaling::kNvfp4);
    EXPECT_EQ(run.precision.starts_with("fp8") || run.precision == "nvfp4", recipe != nullptr)
        << run.precision;
  }
}

TEST(BridgeRoundTrip, GivesNumericsBack) {
  for (const Plan& plan : plans_of_other_numerics()) {
    SCOPED_TRACE(plan.scenario.job.model_name);
    ASSERT_THAT(fields_of(megatron_bridge_refusals(plan)), IsEmpty());
    const std::string file = content_of(megatron_bridge_export(plan), "plan_config.py");
    const ImportedRun run = read_run(file, "plan_config.py", plan.config.world_size());
    EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
    EXPECT_EQ(run.model, plan.scenario.job.model);
  }
}

// The flags of Megatron-LM are read by a reader of their own.
TEST(MegatronRoundTrip, GivesNumericsBack) {
  for (const Plan& plan : plans_of_other_numerics()) {
    SCOPED_TRACE(plan.scenario.job.model_name);
    ASSERT_THAT(fields_of(megatron_refusals(plan)), IsEmpty());
    const ImportedRun run = read_run(content_of(megatron_export(plan), "arguments.txt"),
                                     "launch.sh", plan.config.world_size());
    EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
    EXPECT_EQ(run.model, plan.scenario.job.model);
  }
}

}  // namespace
}  // namespace ptdp
