// Tests of exports for DeepSpeed.
#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/planner/export/exports.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A configuration that DeepSpeed runs.
constexpr ParallelConfig kDeepspeedRuns = {
    .tp = 2, .dp = 8, .recompute = Recompute::kFull, .zero_stage = 3};

std::vector<std::string> deepspeed_refuses(void (*change)(Plan& plan)) {
  Plan plan = llama_plan("megatron-core-2025", kDeepspeedRuns);
  change(plan);
  return fields_of(deepspeed_refusals(plan));
}

TEST(DeepspeedExport, WritesTheConfigurationByHand) {
  const Plan plan = llama_plan("megatron-core-2025", kDeepspeedRuns);
  ASSERT_THAT(deepspeed_refusals(plan), IsEmpty());
  EXPECT_EQ(content_of(deepspeed_export(plan), "ds_config.json"),
            "{\n"
            "  \"train_batch_size\": 128,\n"
            "  \"train_micro_batch_size_per_gpu\": 1,\n"
            "  \"gradient_accumulation_steps\": 16,\n"
            "  \"gradient_clipping\": 1.0,\n"
            "  \"steps_per_print\": 1,\n"
            "  \"bf16\": {\"enabled\": true},\n"
            "  \"data_types\": {\"grad_accum_dtype\": \"fp32\"},\n"
            "  \"zero_optimization\": {\n"
            "    \"stage\": 3,\n"
            "    \"overlap_comm\": true,\n"
            "    \"contiguous_gradients\": true\n"
            "  }\n"
            "}\n");
}

TEST(DeepspeedExport, WritesArgumentsByHand) {
  const Plan plan = llama_plan("megatron-core-2025", kDeepspeedRuns);
  EXPECT_EQ(content_of(deepspeed_export(plan), "arguments.txt"),
            "--num-layers 32\n--hidden-size 4096\n--ffn-hidden-size 14336\n"
            "--num-attention-heads 32\n--kv-channels 128\n--num-key-value-heads 8\n"
            "--seq-length 8192\n--max-position-embeddings 8192\n--vocab-size 128255\n"
            "--make-vocab-size-divisible-by 128\n--use-rotary-position-embeddings\n"
            "--rotary-position-embeddings-theta 500000\n"
            "--normalization rmsnorm\n--layernorm-epsilon 1e-05\n--init-method-std 0.02\n"
            "--swiglu\n--disable-bias-linear\n--untie-embeddings-and-output-weights\n"
            "--attention-dropout 0\n--hidden-dropout 0\n--tensor-model-parallel-size 2\n"
            "--pipeline-model-parallel-size 1\n--no-pipeline-parallel\n--micro-batch-size 1\n"
            "--global-batch-size 128\n--recompute-granularity full\n--recompute-method uniform\n"
            "--recompute-num-layers 1\n--zero-stage 3\n--bf16\n--use-flash-attn-v2\n"
            "--no-query-key-layer-scaling\n--train-iters 20\n--lr 1.0e-4\n--min-lr 1.0e-5\n"
            "--lr-decay-style cosine\n--lr-decay-iters 20\n--clip-grad 1.0\n"
            "--weight-decay 0.1\n--eval-iters 0\n--log-interval 1\n");
}

TEST(DeepspeedExport, HasFlagsAndKeysOfTheFrameworksAlone) {
  const std::set<std::string> flags = known_names("megatron_deepspeed_4efb479d.txt");
  const std::set<std::string> keys = known_names("deepspeed_0.19.8.txt");
  ASSERT_GT(flags.size(), 300U);
  ASSERT_GT(keys.size(), 150U);
  Plan plan = llama_plan("megatron-core-2025", {.tp = 2, .pp = 4, .dp = 2, .zero_stage = 1});
  plan.config.offload = Offload::kOptimizer;
  for (const Plan& each : {plan, llama_plan("megatron-core-2025", kDeepspeedRuns)}) {
    const Export exported = deepspeed_export(each);
    std::istringstream lines(content_of(exported, "arguments.txt"));
    for (std::string line; std::getline(lines, line);) {
      EXPECT_TRUE(flags.contains(line.substr(0, line.find(' ')))) << line;
    }
    const auto config = nlohmann::json::parse(content_of(exported, "ds_config.json"));
    for (const auto& [key, value] : config["zero_optimization"].items()) {
      EXPECT_TRUE(keys.contains("zero_optimization." + key)) << key;
    }
  }
}

TEST(DeepspeedExport, RunsAPipelineWithStagesUpToOne) {
  ParallelConfig config = {.tp = 2, .pp = 4, .dp = 2, .zero_stage = 1};
  const Plan plan = llama_plan("megatron-core-2025", config);
  ASSERT_THAT(deepspeed_refusals(plan), IsEmpty());
  EXPECT_THAT(content_of(deepspeed_export(plan), "arguments.txt"),
              Not(HasSubstr("--no-pipeline-parallel")));
  config.zero_stage = 2;
  EXPECT_THAT(fields_of(deepspeed_refusals(llama_plan("megatron-core-2025", config))),
              ElementsAre("zero_stage"));
}

// runtime/engine.py: bf16 weights and fp32 gradients without ZeRO are an "unsupported mix".
TEST(DeepspeedExport, ShardsOverOneRankWhereNothingIsSharded) {
  const Plan alone = llama_plan("megatron-core-2025", {.tp = 8});
  ASSERT_THAT(deepspeed_refusals(alone), IsEmpty());
  EXPECT_THAT(content_of(deepspeed_export(alone), "ds_config.json"), HasSubstr("\"stage\": 1"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.zero_stage = 0; }),
              ElementsAre("zero_stage"));
}

TEST(DeepspeedExport, RefusesWhatDeepspeedDoesNotRun) {
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.cp = 2; }), ElementsAre("cp", "cp"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.ep = 2; }), ElementsAre("ep"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.scenario.stack.deterministic = true; }),
              ElementsAre("deterministic"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.vpp = 2; }), ElementsAre("vpp"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.schedule = ScheduleKind::kInterleaved; }),
              ElementsAre("schedule"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.recompute = Recompute::kSelective; }),
              ElementsAre("recompute"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) {
                p.config.recompute_method = RecomputeMethod::kEvery;
                p.config.recompute_num_layers = 2;
              }),
              ElementsAre("recompute_method"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.recompute_num_layers = 40; }),
              ElementsAre("recompute_num_layers"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.dp_replicate = 2; }),
              ElementsAre("dp_replicate"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.reshard_after_forward = false; }),
              ElementsAre("reshard_after_forward"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.config.offload = Offload::kActivations; }),
              ElementsAre("offload"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) { p.scenario.stack.precision = Precision::kFp64; }),
              ElementsAre("precision"));
  EXPECT_THAT(deepspeed_refuses([](Plan& p) {
                p.schedule.layers_per_stage = {15, 17};
              }),
              ElementsAre("layers_per_stage"));
  EXPECT_THAT(
      deepspeed_refuses([](Plan& p) { p.scenario.job.model = find_model("mixtral-8x7b").config; }),
      ElementsAre("num_experts"));
  EXPECT_THAT(
      deepspeed_refuses([](Plan& p) { p.scenario.job.model = find_model("qwen3-8b").config; }),
      ElementsAre("qk_layernorm"));
}

TEST(DeepspeedExport, SharesSequencesByHeads) {
  Plan plan = llama_plan("megatron-core-2025", {.dp = 8, .zero_stage = 3});
  plan.config.cp = 2;
  plan.scenario.stack.context_parallel_kind = ContextParallel::kAllToAll;
  ASSERT_THAT(deepspeed_refusals(plan), IsEmpty());
  EXPECT_THAT(content_of(deepspeed_export(plan), "arguments.txt"),
              HasSubstr("--ds-sequence-parallel-size 2\n"));
}

}  // namespace
}  // namespace ptdp
