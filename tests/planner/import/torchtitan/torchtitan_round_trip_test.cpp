// Reading a run back from torchtitan's files: it undoes the exports.
#include <gmock/gmock.h>

#include "planner/import/reader.h"
#include "tests/planner/export/exports.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

constexpr RecomputeModules kOp = {RecomputeModule::kEverySecondProduct};

/// Returns a plan with the angles of torchtitan's own Llama 3, which are those of Llama 3.1.
Plan titan_plan(const ParallelConfig& config) {
  Plan plan = plan_of(shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024", 128), config);
  plan.scenario.job.model.rotary = find_model("llama-3.1-405b").config.rotary;
  return plan;
}

/// Configurations that both releases run.
std::vector<ParallelConfig> configs_of_both() {
  return {{.dp = 16, .zero_stage = 3},
          {.dp = 16,
           .micro_batch_size = 2,
           .recompute = Recompute::kSelective,
           .recompute_modules = kOp,
           .zero_stage = 3,
           .dp_replicate = 2,
           .reshard_after_forward = false},
          {.tp = 4,
           .pp = 2,
           .dp = 8,
           .recompute = Recompute::kFull,
           .sequence_parallel = true,
           .zero_stage = 3},
          {.tp = 2,
           .pp = 4,
           .dp = 4,
           .vpp = 2,
           .micro_batch_size = 2,
           .schedule = ScheduleKind::kInterleaved,
           .sequence_parallel = true,
           .zero_stage = 3},
          {.pp = 4, .dp = 4, .schedule = ScheduleKind::kGPipe, .zero_stage = 3},
          {.pp = 4, .dp = 4, .vpp = 2, .schedule = ScheduleKind::kZbV, .zero_stage = 3},
          {.pp = 4, .dp = 4, .zero_stage = 3, .layers_per_stage = {7, 9, 9, 7}},
          {.dp = 8, .cp = 2, .recompute = Recompute::kFull, .zero_stage = 3}};
}

Plan with_gathered_keys(Plan plan) {
  plan.scenario.stack.context_parallel_kind = ContextParallel::kAllGather;
  return plan;
}

TEST(TorchtitanRoundTrip, UndoesTheToml) {
  std::vector<ParallelConfig> configs = configs_of_both();
  configs.push_back({.dp = 8,
                     .recompute = Recompute::kFull,
                     .recompute_method = RecomputeMethod::kEvery,
                     .recompute_num_layers = 2,
                     .zero_stage = 3});
  for (const ParallelConfig& config : configs) {
    const Plan plan = with_gathered_keys(titan_plan(config));
    ASSERT_THAT(fields_of(torchtitan_toml_refusals(plan)), testing::IsEmpty()) << to_string(config);
    const std::string text = content_of(torchtitan_toml_export(plan), "plan.toml");
    const ImportedRun run = read_run(text, "plan.toml", std::nullopt);
    EXPECT_EQ(run.config, config) << to_string(run.config) << "\nfrom\n" << text;
    EXPECT_EQ(run.global_batch_size, 128);
    EXPECT_EQ(run.gpus, config.world_size());
    EXPECT_EQ(run.precision, "bf16");
    EXPECT_EQ(run.model, plan.scenario.job.model);
    EXPECT_THAT(run.reading.unknown_flags, testing::IsEmpty());
  }
}

TEST(TorchtitanRoundTrip, UndoesTheCommandLine) {
  std::vector<ParallelConfig> configs = configs_of_both();
  configs.push_back({.tp = 2, .dp = 4, .zero_stage = 3});
  configs.push_back({.dp = 8});
  for (const ParallelConfig& config : configs) {
    const Plan plan = with_gathered_keys(titan_plan(config));
    ASSERT_THAT(fields_of(torchtitan_refusals(plan)), testing::IsEmpty()) << to_string(config);
    const std::string text = content_of(torchtitan_export(plan), "launch.sh");
    const ImportedRun run = read_run(text, "launch.sh", std::nullopt, plan.scenario.job.model);
    EXPECT_EQ(run.config, config) << to_string(run.config) << "\nfrom\n" << text;
    EXPECT_EQ(run.global_batch_size, 128);
    EXPECT_EQ(run.gpus, config.world_size());
    EXPECT_EQ(run.precision, "bf16");
    EXPECT_EQ(run.seq_length, plan.scenario.job.model.seq_length);
    EXPECT_FALSE(run.model) << "torchtitan_plan.py holds it";
    EXPECT_THAT(run.reading.unknown_flags, testing::IsEmpty());
  }
}

}  // namespace
}  // namespace ptdp
