// Tests of exports for nanotron 0.4.
#include <gmock/gmock.h>

#include "tests/planner/export/exports.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A configuration that nanotron runs.
constexpr ParallelConfig kNanotronRuns = {
    .tp = 2, .dp = 8, .micro_batch_size = 2, .sequence_parallel = true, .zero_stage = 1};

/// Returns a plan whose angles are nanotron's: it has no key for another base.
Plan nanotron_plan(const ParallelConfig& config) {
  Plan plan = llama_plan("nanotron-2025", config);
  plan.scenario.job.model.rotary = {};
  return plan;
}

std::vector<std::string> nanotron_refuses(const ParallelConfig& config) {
  return fields_of(nanotron_refusals(nanotron_plan(config)));
}

std::vector<std::string> nanotron_refuses_model(const std::string& model) {
  Plan plan = nanotron_plan(kNanotronRuns);
  plan.scenario.job.model = find_model(model).config;
  return fields_of(nanotron_refusals(plan));
}

TEST(NanotronExport, WritesTheConfigurationByHand) {
  const Plan plan = nanotron_plan(kNanotronRuns);
  ASSERT_THAT(nanotron_refusals(plan), IsEmpty());
  EXPECT_EQ(content_of(nanotron_export(plan), "config.yaml"),
            "general:\n"
            "  project: ptdp\n"
            "  run: plan\n"
            "  seed: 42\n"
            "parallelism:\n"
            "  dp: 8\n"
            "  pp: 1\n"
            "  tp: 2\n"
            "  pp_engine: \"1f1b\"\n"
            "  tp_mode: REDUCE_SCATTER\n"
            "  tp_linear_async_communication: false\n"
            "  expert_parallel_size: 1\n"
            "model:\n"
            "  dtype: bfloat16\n"
            "  init_method:\n"
            "    std: 0.02\n"
            "  make_vocab_size_divisible_by: 128\n"
            "  model_config:\n"
            "    is_llama_config: true\n"
            "    hidden_act: silu\n"
            "    hidden_size: 4096\n"
            "    intermediate_size: 14336\n"
            "    num_hidden_layers: 32\n"
            "    num_attention_heads: 32\n"
            "    num_key_value_heads: 8\n"
            "    vocab_size: 128256\n"
            "    max_position_embeddings: 8192\n"
            "    rms_norm_eps: 0.0000100000\n"
            "    initializer_range: 0.02\n"
            "    tie_word_embeddings: false\n"
            "tokens:\n"
            "  sequence_length: 8192\n"
            "  micro_batch_size: 2\n"
            "  batch_accumulation_per_replica: 8\n"
            "  train_steps: 20\n"
            "optimizer:\n"
            "  zero_stage: 1\n"
            "  accumulate_grad_in_fp32: true\n"
            "  weight_decay: 0.1\n"
            "  clip_grad: 1.0\n"
            "  adam_eps: 0.00000001\n"
            "  adam_beta1: 0.9\n"
            "  adam_beta2: 0.95\n"
            "  torch_adam_is_fused: true\n"
            "  learning_rate_scheduler:\n"
            "    learning_rate: 0.0001\n"
            "    lr_warmup_steps: 2\n"
            "    lr_warmup_style: linear\n"
            "    lr_decay_style: cosine\n"
            "    min_decay_lr: 0.00001\n"
            "data:\n"
            "  dataset: null\n"
            "  seed: 42\n"
            "tokenizer:\n"
            "  tokenizer_name_or_path: null\n"
            "checkpoints:\n"
            "  checkpoints_path: checkpoints\n"
            "  checkpoint_interval: 1000000\n"
            "logging:\n"
            "  log_level: info\n"
            "  iteration_step_info_interval: 1\n");
}

TEST(NanotronExport, HasKeysOfTheFrameworkAlone) {
  const std::set<std::string> known = known_names("nanotron_0.4.txt");
  ASSERT_GT(known.size(), 100U);
  const Export exported = nanotron_export(nanotron_plan(kNanotronRuns));
  for (const std::string& path : yaml_paths(content_of(exported, "config.yaml"))) {
    EXPECT_TRUE(known.contains(path)) << path;
  }
}

// 4·4096² + 3·4096·14336 a layer, 128256·4096 for logits: 2.16 layers. A share is 8.54 layers, and
// the layer that exceeds it still belongs to the rank.
TEST(NanotronExport, SaysThePartitionThatNanotronMakesAlone) {
  ParallelConfig config = kNanotronRuns;
  config.pp = 4;
  const auto differences = [&] { return nanotron_export(nanotron_plan(config)).differences; };
  EXPECT_THAT(differences(), Contains(HasSubstr("2x9,8,6 layers per stage")));
  config.layers_per_stage = {9, 9, 8, 6};
  EXPECT_THAT(differences(), Not(Contains(HasSubstr("layers per stage"))));
}

TEST(NanotronExport, WritesLayersPerStage) {
  ParallelConfig config = kNanotronRuns;
  config.pp = 4;
  config.layers_per_stage = {0, 12, 20, 0};
  const Plan plan = nanotron_plan(config);
  ASSERT_THAT(nanotron_refusals(plan), IsEmpty());
  const Export exported = nanotron_export(plan);
  EXPECT_EQ(content_of(exported, "layers_per_stage.json"), "[0, 12, 20, 0]\n");
  EXPECT_THAT(content_of(exported, "run_train.py"), HasSubstr("layers_per_stage.json"));
}

TEST(NanotronExport, RefusesAnEmptyRankInTheMiddle) {
  ParallelConfig config = kNanotronRuns;
  config.pp = 4;
  config.layers_per_stage = {12, 0, 10, 10};
  EXPECT_THAT(nanotron_refuses(config), ElementsAre("layers_per_stage"));
}

TEST(NanotronExport, RefusesWhatNanotronDoesNotRun) {
  const auto changed = [](auto change) {
    Plan plan = nanotron_plan(kNanotronRuns);
    change(plan);
    return fields_of(nanotron_refusals(plan));
  };
  EXPECT_THAT(changed([](Plan& p) { p.config.cp = 2; }), ElementsAre("cp"));
  EXPECT_THAT(changed([](Plan& p) { p.scenario.stack.deterministic = true; }),
              ElementsAre("deterministic"));
  EXPECT_THAT(changed([](Plan& p) { p.config.ep = 2; }), ElementsAre("ep"));
  EXPECT_THAT(changed([](Plan& p) { p.config.vpp = 2; }), ElementsAre("vpp"));
  EXPECT_THAT(changed([](Plan& p) { p.config.schedule = ScheduleKind::kZbH1; }),
              ElementsAre("schedule"));
  EXPECT_THAT(changed([](Plan& p) { p.config.recompute = Recompute::kFull; }),
              ElementsAre("recompute"));
  EXPECT_THAT(changed([](Plan& p) { p.config.zero_stage = 2; }), ElementsAre("zero_stage"));
  EXPECT_THAT(changed([](Plan& p) { p.config.dp_replicate = 2; }), ElementsAre("dp_replicate"));
  EXPECT_THAT(changed([](Plan& p) { p.config.offload = Offload::kOptimizer; }),
              ElementsAre("offload"));
  EXPECT_THAT(changed([](Plan& p) { p.scenario.stack.precision = Precision::kFp16; }),
              ElementsAre("precision"));
  EXPECT_THAT(changed([](Plan& p) { p.scenario.stack.attention = "unfused"; }),
              ElementsAre("attention"));
  EXPECT_THAT(changed([](Plan& p) {
                p.config.tp = 16;
                p.config.dp = 1;
              }),
              ElementsAre("tp"));
}

TEST(NanotronExport, RefusesModelsThatAreNoLlama) {
  EXPECT_THAT(nanotron_refuses_model("7.5B"),
              ElementsAre("gated_linear_unit", "normalization", "position_embedding",
                          "add_bias_linear", "dropout"));
  EXPECT_THAT(nanotron_refuses_model("mixtral-8x7b"), ElementsAre("num_experts", "rotary_base"));
  EXPECT_THAT(nanotron_refuses_model("qwen3-8b"), ElementsAre("qk_layernorm", "rotary_base"));
  EXPECT_THAT(nanotron_refuses_model("qwen2.5-7b"), ElementsAre("add_qkv_bias", "rotary_base"));
  EXPECT_THAT(nanotron_refuses_model("llama-3-70b"), ElementsAre("rotary_base"));
  EXPECT_THAT(nanotron_refuses_model("llama-2-70b"), IsEmpty());
}

TEST(NanotronExport, StartsTorchrunOnTheNodesInUse) {
  const Export exported = nanotron_export(nanotron_plan(kNanotronRuns));
  EXPECT_THAT(content_of(exported, "launch.sh"), HasSubstr("--nnodes=2 --nproc-per-node=8"));
  EXPECT_THAT(content_of(exported, "launch.sh"), HasSubstr("CUDA_DEVICE_MAX_CONNECTIONS=1"));
}

}  // namespace
}  // namespace ptdp
