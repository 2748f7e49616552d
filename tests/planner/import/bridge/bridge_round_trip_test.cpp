// Tests that reading undoes exports to Megatron-Bridge. The oracle is the plan that was exported.
#include <gmock/gmock.h>

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

/// Plans that differ in everything that Megatron-Bridge expresses.
std::vector<Plan> exported_bridge_plans() {
  Scenario gpt = selene_2021("7.5B", 512);
  gpt.stack.can_run.rank_orders = {RankOrder::kTpCpEpPpDp};
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
    EXPECT_EQ(run.precision.starts_with("fp8"), recipe != nullptr) << run.precision;
  }
}

}  // namespace
}  // namespace ptdp
