// Tests of reading runs of Megatron-Bridge. Expectations follow by hand from the defaults of its
// dataclasses in 0.6.2 (ConfigContainer, GPTModelProvider, MLAModelProvider) and its scripts.
#include "planner/import/bridge/bridge.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/import/reader.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

constexpr const char* kWholeModel =
    "from megatron.bridge.training.config import ConfigContainer\n"
    "def config():\n"
    "    cfg = ConfigContainer(\n"
    "        model=GPTModelProvider(num_layers=24, hidden_size=1024, num_attention_heads=16,\n"
    "                               seq_length=2048, vocab_size=50304),\n"
    "        train=TrainingConfig(micro_batch_size=2, global_batch_size=64),\n"
    "    )\n";

ImportedRun python_run(const std::string& more, std::int64_t gpus = 32) {
  return read_run(kWholeModel + more, "plan.py", gpus);
}

ImportedRun yaml_run(const std::string& text, std::int64_t gpus = 32) {
  return read_run(text, "overrides.yaml", gpus);
}

constexpr const char* kOverrides =
    "model:\n  tensor_model_parallel_size: 2\n  pipeline_model_parallel_size: 4\n"
    "train: {micro_batch_size: 1, global_batch_size: 64}\n";

constexpr const char* kScript =
    "torchrun --nproc_per_node=8 --nnodes=2 scripts/training/run_recipe.py --recipe llama3_8b "
    "train.micro_batch_size=1 train.global_batch_size=64 ";

template <class Read>
std::string refusal_by(const Read& read, const std::string& more) {
  try {
    return "no error: " + to_string(read(more).config);
  } catch (const Error& error) {
    return error.what();
  }
}

std::string python_refusal(const std::string& more) {
  return refusal_by([](const std::string& text) { return python_run(text); }, more);
}
std::string yaml_refusal(const std::string& more) {
  return refusal_by([](const std::string& text) { return yaml_run(kOverrides + text); }, more);
}
std::string script_refusal(const std::string& more) {
  return refusal_by(
      [](const std::string& text) { return read_run(kScript + text, "launch.sh", 16); }, more);
}

TEST(Bridge, HasItsDefaults) {
  const ImportedRun run = python_run("");
  EXPECT_EQ(run.framework, "Megatron-Bridge");
  EXPECT_EQ(run.config, (ParallelConfig{.dp = 32, .micro_batch_size = 2}));
  EXPECT_EQ(run.global_batch_size, 64);
  EXPECT_EQ(run.precision, "fp32");
  EXPECT_EQ(run.stack.reductions, false);
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->ffn_hidden_size, 4096);
  EXPECT_EQ(run.model->num_query_groups, 16);
  EXPECT_EQ(run.model->kv_channels, 64);
  EXPECT_TRUE(run.model->add_bias_linear);
  EXPECT_FALSE(run.model->untied_embeddings);
  EXPECT_EQ(run.model->position_embedding, PositionEmbedding::kLearned);
  EXPECT_EQ(run.model->activation_func, Activation::kGelu);
  EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
}

TEST(Bridge, ReadsWhatPythonAssigns) {
  const ImportedRun run = python_run(
      "    cfg.model.tensor_model_parallel_size = 2  # a comment\n"
      "    cfg.model.pipeline_model_parallel_size = 4\n"
      "    cfg.model.virtual_pipeline_model_parallel_size = 3\n"
      "    cfg.model.sequence_parallel = True\n"
      "    cfg.model.recompute_granularity = \"selective\"\n"
      "    cfg.model.recompute_modules = [\"core_attn\", \"mlp\"]\n"
      "    cfg.ddp.use_distributed_optimizer = True\n"
      "    cfg.mixed_precision = bf16_with_mxfp8_mixed()\n"
      "    cfg.comm_overlap = CommOverlapConfig(tp_comm_overlap=True)\n"
      "    cfg.model.my_own = 3\n");
  EXPECT_EQ(run.config, (ParallelConfig{.tp = 2,
                                        .pp = 4,
                                        .dp = 4,
                                        .vpp = 3,
                                        .micro_batch_size = 2,
                                        .schedule = ScheduleKind::kInterleaved,
                                        .recompute = Recompute::kSelective,
                                        .recompute_modules =
                                            parse_recompute_modules("core_attn+mlp", "by hand"),
                                        .sequence_parallel = true,
                                        .zero_stage = 1}));
  EXPECT_EQ(run.precision, "fp8-mx");
  // A CommOverlapConfig hides reductions and gathers unless it says otherwise.
  EXPECT_EQ(run.stack.reductions, true);
  EXPECT_EQ(run.stack.gathers, true);
  EXPECT_EQ(run.stack.within_products, true);
  EXPECT_EQ(run.stack.pipeline, true);
  EXPECT_THAT(run.reading.unknown_flags, ElementsAre("model.my_own"));
}

// Python's assignments have blanks or none; what changes a value otherwise is refused.
TEST(Bridge, ReadsAssignmentsHoweverTheyAreWritten) {
  EXPECT_EQ(python_run("    cfg.model.tensor_model_parallel_size=8\n").config.tp, 8);
  EXPECT_EQ(python_run("    cfg.model.tensor_model_parallel_size: int = 4\n").config.tp, 4);
  EXPECT_EQ(python_refusal("    cfg.train.global_batch_size *= 2\n"),
            "plan.py: line 8: expected \"cfg.train.global_batch_size = ...\", got "
            "\"cfg.train.global_batch_size *= 2\"");
  EXPECT_EQ(python_refusal("    setattr(cfg.model, \"tensor_model_parallel_size\", 8)\n"),
            "plan.py: line 8: expected an assignment, got \"setattr(cfg.model, "
            "\"tensor_model_parallel_size\", 8)\"");
  EXPECT_THAT(python_refusal("    if FP8: cfg.mixed_precision = \"fp16_mixed\"\n"),
              HasSubstr("the condition above line 8"));
  EXPECT_THAT(python_run("    cfg.ddp = DistributedDataParallelConfig(**extra)\n").reading.notes,
              Contains("line 8: what ** adds to ddp is not read"));
  EXPECT_EQ(python_run("    assert cfg.model.tensor_model_parallel_size == 8\n").config.tp, 1);
}

TEST(Bridge, TakesGroupsWithoutASwitchAndWidthsWithoutAGate) {
  const ImportedRun run = python_run(
      "    cfg.model.num_query_groups = 4\n"
      "    cfg.model.gated_linear_unit = True\n"
      "    cfg.model.moe_layer_freq = [0] * 2 + [1] * 22\n"
      "    cfg.model.num_moe_experts = 8\n"
      "    cfg.model.window_size = (511, 0)\n"
      "    cfg.tokenizer.vocab_size = 50257\n");
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->num_query_groups, 4);
  EXPECT_EQ(run.model->ffn_hidden_size, 4096);  // 4h, also with a gate
  EXPECT_EQ(run.model->first_dense_layers, 2);
  EXPECT_EQ(run.model->window_size, 512);
  EXPECT_EQ(run.model->vocab_size, 50257);
  EXPECT_EQ(run.stack.dispatch, ExpertDispatch::kAllGather);
}

TEST(Bridge, ReadsLatentAttentionWithItsDefaults) {
  const std::string text =
      "import megatron.bridge\ncfg = ConfigContainer(model=MLAModelProvider(num_layers=4, "
      "hidden_size=512, num_attention_heads=8, vocab_size=1024, multi_latent_attention=True), "
      "train=TrainingConfig(micro_batch_size=1, global_batch_size=8))\n";
  const ImportedRun usual = read_run(text, "plan.py", 8);
  EXPECT_EQ(usual.model->q_lora_rank, 512);
  EXPECT_EQ(usual.model->kv_lora_rank, 512);
  EXPECT_EQ(usual.model->seq_length, 1024);
  EXPECT_EQ(read_run(text + "cfg.model.q_lora_rank = None\n", "plan.py", 8).model->q_lora_rank, 0);
}

TEST(Bridge, ReadsLayouts) {
  const std::string plain = "    cfg.model.pipeline_model_parallel_size = 2\n";
  EXPECT_THAT(python_run(plain + "    cfg.model.pipeline_model_parallel_layout = 'Et*11|t*13L'\n")
                  .config.layers_per_stage,
              ElementsAre(11, 13));
  EXPECT_THAT(python_run(plain + "    cfg.model.num_layers_in_first_pipeline_stage = 10\n")
                  .config.layers_per_stage,
              ElementsAre(10, 14));
  EXPECT_THAT(yaml_run("model:\n  pipeline_model_parallel_size: 2\n"
                       "  pipeline_model_parallel_layout: [[embedding, decoder], [decoder, "
                       "decoder, loss]]\n"
                       "train: {micro_batch_size: 1, global_batch_size: 64}\n")
                  .config.layers_per_stage,
              ElementsAre(1, 2));
  EXPECT_THAT(
      python_refusal(plain + "    cfg.model.pipeline_model_parallel_layout = 'Et*11|t*13L'\n"
                             "    cfg.model.virtual_pipeline_model_parallel_size = 2\n"),
      HasSubstr("expected the 1 of the layout, got 2"));
}

TEST(Bridge, SaysWhatARecipeHas) {
  const ImportedRun run = yaml_run(kOverrides);
  EXPECT_FALSE(run.model);
  EXPECT_EQ(run.missing, "the model of the recipe that it changes");
  EXPECT_EQ(run.precision, "bf16");
  EXPECT_EQ(run.config,
            (ParallelConfig{.tp = 2, .pp = 4, .dp = 4, .micro_batch_size = 1, .zero_stage = 1}));
  EXPECT_EQ(run.stack.reductions, std::nullopt);
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("starts from a recipe, which is not read")));
  EXPECT_THAT(run.reading.notes, Contains("bf16, as Megatron-Bridge's recipes have it"));
}

// A run_config.yaml of a Llama 3.1 says so: its provider's 131072 tokens, and the 1024 of its data.
TEST(Bridge, TakesTheLengthOfTheData) {
  const ImportedRun run = python_run("    cfg.dataset.sequence_length = 1024\n");
  EXPECT_EQ(run.model->seq_length, 1024);
  EXPECT_THAT(run.reading.notes,
              Contains("dataset.sequence_length 1024 counts; model.seq_length is 2048"));
}

TEST(Bridge, KeepsTheLengthOfAFileWithoutAModel) {
  const ImportedRun run = yaml_run(std::string(kOverrides) + "dataset: {seq_length: 8192}\n");
  EXPECT_EQ(run.seq_length, 8192);
  const ImportedRun changed = read_run(
      std::string(kScript) + "-tp 2 model.num_layers=4 model.hidden_size=64", "launch.sh", 16);
  EXPECT_THAT(changed.reading.notes,
              Contains("changes a model that is not read; --model must have it: "
                       "model.hidden_size, model.num_layers"));
}

// A checkpoint's run_config.yaml names every field; what is null is not there.
TEST(Bridge, ReadsRunConfigurations) {
  const ImportedRun run = yaml_run(
      "_target_: megatron.bridge.training.config.ConfigContainer\n"
      "ddp: {_target_: a.B, use_distributed_optimizer: true, overlap_grad_reduce: true}\n"
      "mixed_precision: bf16_mixed\n"
      "model:\n  _target_: megatron.bridge.models.llama.LlamaModelProvider\n  num_layers: 4\n"
      "  hidden_size: 512\n  num_attention_heads: 8\n  num_query_groups: 2\n  vocab_size: 1024\n"
      "  seq_length: 128\n  gated_linear_unit: true\n  ffn_hidden_size: 1408\n"
      "  activation_func: {_target_: torch.nn.functional.silu, _call_: false}\n"
      "  multi_latent_attention: false\n  q_lora_rank: null\n"
      "train: {micro_batch_size: 1, global_batch_size: 32}\n");
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->num_query_groups, 2);
  EXPECT_EQ(run.precision, "bf16");
  EXPECT_EQ(run.config.zero_stage, 1);
  EXPECT_EQ(run.stack.reductions, true);
  EXPECT_EQ(run.stack.gathers, false);
  EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("the file names every field")));
}

TEST(Bridge, ReadsOverridesOfACommand) {
  const ImportedRun run = read_run(
      std::string(kScript) +
          "model.tensor_model_parallel_size=2 ++model.sequence_parallel=true "
          "model.recompute_granularity=selective 'model.recompute_modules=[core_attn,mlp]' "
          "mixed_precision=bf16_with_fp8_current_scaling_mixed --dataset mock "
          "model.moe_token_dispatcher_type=flex",
      "launch.sh", std::nullopt);
  EXPECT_EQ(run.framework, "Megatron-Bridge");
  EXPECT_EQ(run.gpus, 16);
  EXPECT_EQ(run.config.tp, 2);
  EXPECT_EQ(run.config.dp, 8);
  EXPECT_TRUE(run.config.sequence_parallel);
  EXPECT_EQ(run.config.recompute_modules, parse_recompute_modules("core_attn+mlp", "by hand"));
  EXPECT_EQ(run.precision, "fp8-current");
  EXPECT_EQ(run.stack.dispatch, ExpertDispatch::kHierarchical);
  EXPECT_EQ(run.missing, "the model of \"llama3_8b\"");
  EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
}

// Source: scripts/performance/utils/overrides.py, set_user_overrides(): -tp sets sequence_parallel.
TEST(Bridge, ReadsShortFlags) {
  const ImportedRun run = read_run(
      "-m llama -mr llama31_405b -ng 512 -tp 8 -pp 8 -vp 8 -cp 2 -mb 1 -gb 512\n-c fp8_cs "
      "--recompute_num_layers 2 --use_megatron_fsdp false\n",
      "arguments.txt", std::nullopt);
  EXPECT_EQ(run.gpus, 512);
  EXPECT_EQ(run.precision, "fp8-current");
  EXPECT_EQ(run.config, (ParallelConfig{.tp = 8,
                                        .pp = 8,
                                        .dp = 4,
                                        .cp = 2,
                                        .vpp = 8,
                                        .micro_batch_size = 1,
                                        .schedule = ScheduleKind::kInterleaved,
                                        .recompute = Recompute::kFull,
                                        .recompute_num_layers = 2,
                                        .sequence_parallel = true,
                                        .zero_stage = 1}));
}

// Source: scripts/training/run_recipe.py: trailing overrides win, and -tp sets nothing else.
TEST(Bridge, LetsOverridesWinInTrainingScripts) {
  const ImportedRun run =
      read_run(std::string(kScript) + "-tp 2 model.tensor_model_parallel_size=4", "launch.sh", 16);
  EXPECT_EQ(run.config.tp, 4);
  EXPECT_FALSE(run.config.sequence_parallel);
  const ImportedRun performance =
      read_run("-m llama -ng 16 -tp 2 -mb 1 -gb 64 model.tensor_model_parallel_size=4", "a.txt",
               std::nullopt);
  EXPECT_EQ(performance.config.tp, 2);
}

TEST(Bridge, KnowsPrecisions) {
  struct BridgePrecisionRow {
    const char* lines;
    const char* precision;
  };
  for (const BridgePrecisionRow& row :
       {BridgePrecisionRow{"    cfg.mixed_precision = 'bf16-mixed'\n", "bf16"},
        BridgePrecisionRow{"    cfg.mixed_precision = get_mixed_precision_config(\"fp16_mixed\")\n",
                           "fp16"},
        BridgePrecisionRow{"    cfg.mixed_precision = bf16_with_fp8_subchannel_scaling_mixed()\n",
                           "fp8-block"},
        BridgePrecisionRow{
            "    cfg.mixed_precision = bf16_mixed()\n    cfg.mixed_precision.fp8 = 'hybrid'\n",
            "fp8-current"},
        BridgePrecisionRow{"    cfg.mixed_precision = MixedPrecisionConfig(fp32=True)\n", "fp32"},
        BridgePrecisionRow{"    cfg.mixed_precision = bf16_with_nvfp4_mixed()\n", "nvfp4"},
        BridgePrecisionRow{"    cfg.model.bf16 = True\n    cfg.model.fp4 = 'e2m1'\n", "nvfp4"},
        BridgePrecisionRow{"    cfg.model.bf16 = True\n    cfg.model.fp8 = 'e4m3'\n",
                           "fp8-delayed"},
        BridgePrecisionRow{"    cfg.model.bf16 = True\n    cfg.model.fp8 = None\n", "bf16"}}) {
    EXPECT_EQ(python_run(row.lines).precision, row.precision) << row.lines;
  }
}

TEST(Bridge, RefusesWhatCannotBe) {
  struct BridgeRefusal {
    const char* lines;
    const char* message;
  };
  for (const BridgeRefusal& row :
       {BridgeRefusal{"    cfg.model.tensor_model_parallel_size = 5\n",
                      "plan.py: 32 GPUs are no multiple of tp*pp*cp, 5"},
        BridgeRefusal{"    cfg.model.tensor_model_parallel_size = min(8, n)\n",
                      "model.tensor_model_parallel_size: needs the output of min(8, n)"},
        BridgeRefusal{"    if big:\n        cfg.model.context_parallel_size = 2\n",
                      "needs the output of the condition above line 9"},
        BridgeRefusal{
            "def other():\n    cfg.model.num_layers = 8\n",
            "line 9: model.num_layers: expected one configuration, got those of \"config\" and "
            "\"other\""},
        BridgeRefusal{"    cfg.model.num_layers = (8,\n",
                      "line 8: expected its brackets to be closed"},
        BridgeRefusal{"    cfg.model.recompute_granularity = 'some'\n",
                      "expected selective or full"},
        BridgeRefusal{"    cfg.mixed_precision = bf16_with_int8_mixed()\n",
                      "expected a recipe of bf16"},
        BridgeRefusal{
            "    cfg.mixed_precision = 'fp16_mixed'\n    cfg.mixed_precision.fp8 = 'e4m3'\n",
            "expected bf16 beside it, got fp16"},
        BridgeRefusal{"    cfg.model.fp4 = 'e2m1'\n    cfg.model.fp4_recipe = 'custom'\n",
                      "model.fp4_recipe: expected nvfp4"},
        BridgeRefusal{"    cfg.ddp.use_megatron_fsdp = True\n"
                      "    cfg.ddp.data_parallel_sharding_strategy = 'all'\n",
                      "expected no_shard, optim, optim_grads or optim_grads_params, got \"all\""},
        BridgeRefusal{"    cfg.peft = LoRA(dim=8)\n", "peft: expected the training of all weights"},
        BridgeRefusal{"    cfg.model.is_hybrid_model = True\n",
                      "expected layers of attention and MLP"}}) {
    EXPECT_THAT(python_refusal(row.lines), HasSubstr(row.message)) << row.lines;
  }
}

TEST(Bridge, RefusesWhatTheFileDoesNotSay) {
  EXPECT_THAT(yaml_refusal("model: {context_parallel_size: '${oc.env:CP}'}\n"),
              HasSubstr("which its program fills in"));
  EXPECT_THAT(script_refusal("model.tensor_model_parallel_size=$TP"),
              HasSubstr("TP is not set in the script"));
  EXPECT_THAT(script_refusal("--dataset mock"), HasSubstr("launch.sh: says no degree"));
  EXPECT_THAT(script_refusal("-tp 2 --mode lora"), HasSubstr("--mode: expected the training of"));
  EXPECT_THAT(script_refusal("-tp 2 model.num_layers_in_first_pipeline_stage=3"),
              HasSubstr("needs the number of layers"));
  const auto read = [](const std::string& text) { return read_run(text, "a.yaml", 8); };
  EXPECT_THAT(refusal_by(read, "model: {tensor_model_parallel_size: 2}\ntrain: {train_iters: 2}\n"),
              HasSubstr("train.micro_batch_size is missing"));
  const auto without_gpus = [](const std::string& text) {
    return read_run(text, "a.yaml", std::nullopt);
  };
  EXPECT_THAT(refusal_by(without_gpus, kOverrides), HasSubstr("expected --gpus too"));
}

// NeMo's keys are alike; its trainer is not Megatron-Bridge's.
TEST(Bridge, LeavesOtherFilesAlone) {
  const auto read = [](const std::string& text) { return read_run(text, "a.yaml", 8); };
  EXPECT_THAT(refusal_by(read,
                         "trainer: {devices: 8}\nmodel:\n  tensor_model_parallel_size: 2\n"
                         "  pipeline_model_parallel_size: 2\n"),
              HasSubstr("no run of a framework that is known"));
  EXPECT_EQ(read_run("--num-layers 2 --hidden-size 64 --micro-batch-size 1", "a.sh", 8).framework,
            "Megatron-LM");
}

}  // namespace
}  // namespace ptdp
