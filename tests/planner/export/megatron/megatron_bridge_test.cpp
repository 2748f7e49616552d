// Tests of exports to Megatron-Bridge. Oracles: its list of paths, and files written by hand.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <set>

#include "cost_model/inputs/stack_precision.h"
#include "planner/export/megatron/megatron_arguments.h"
#include "planner/export/megatron/megatron_bridge_config.h"
#include "tests/planner/export/exports.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

Plan bridge_plan(const Scenario& scenario, const ParallelConfig& config) {
  return make_plan({scenario, config}, config.world_size(), 0.0, Calibration{});
}

Plan dense_bridge_plan() {
  return bridge_plan(shipped_scenario("llama-3-70b", "dgx-h100", "megatron-core-2025", 256),
                     {.tp = 4,
                      .pp = 4,
                      .dp = 4,
                      .vpp = 5,
                      .schedule = ScheduleKind::kInterleaved,
                      .recompute = Recompute::kSelective,
                      .sequence_parallel = true,
                      .zero_stage = 1});
}

Plan expert_bridge_plan() {
  return bridge_plan(shipped_scenario("deepseek-v3", "dgx-h100", "megatron-bridge-2025", 2048),
                     {.pp = 16,
                      .dp = 64,
                      .ep = 64,
                      .schedule = ScheduleKind::kOneFOneB,
                      .recompute = Recompute::kFull,
                      .zero_stage = 1});
}

Plan fully_sharded_plan() {
  Scenario scenario = shipped_scenario("mistral-7b", "dgx-h100", "megatron-bridge-2025", 64);
  scenario.stack = with_fp8(scenario.stack, "fp8");
  return bridge_plan(scenario, {.dp = 16, .recompute = Recompute::kFull, .zero_stage = 3});
}

Plan gpt_bridge_plan() {
  Scenario scenario = selene_2021("7.5B", 512);
  scenario.stack.can_run.rank_orders = {RankOrder::kTpCpEpPpDp};
  return bridge_plan(scenario, {.tp = 2,
                                .pp = 2,
                                .dp = 4,
                                .recompute = Recompute::kFull,
                                .rank_order = RankOrder::kTpCpEpPpDp});
}

std::vector<Plan> bridge_plans() {
  return {dense_bridge_plan(), expert_bridge_plan(), fully_sharded_plan(), gpt_bridge_plan()};
}

std::map<std::string, std::string> bridge_values(const Plan& plan) {
  std::map<std::string, std::string> settings;
  for (const BridgeSetting& setting : bridge_settings(plan)) {
    EXPECT_TRUE(settings.emplace(setting.path, setting.value).second) << setting.path;
  }
  return settings;
}

std::vector<std::string> bridge_refused(const Plan& plan) {
  return fields_of(megatron_bridge_refusals(plan));
}

TEST(MegatronBridge, SwitchesFusedKernelsOff) {
  Plan plan = gpt_bridge_plan();
  const auto fused = bridge_values(plan);
  EXPECT_EQ(fused.at("model.bias_dropout_fusion"), "True");
  EXPECT_EQ(fused.at("model.bias_activation_fusion"), "True");
  plan.scenario.stack.fused_element_wise = false;
  const auto apart = bridge_values(plan);
  for (const char* path : {"model.bias_dropout_fusion", "model.bias_activation_fusion",
                           "model.masked_softmax_fusion"}) {
    EXPECT_EQ(apart.at(path), "False") << path;
  }
}

TEST(MegatronBridge, SetsOnlyPathsThatItHas) {
  std::set<std::string> known;
  std::ifstream file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/frameworks/megatron_bridge.txt");
  for (std::string line; std::getline(file, line);) {
    known.insert(line);
  }
  ASSERT_GT(known.size(), 700U);
  for (const Plan& plan : bridge_plans()) {
    for (const auto& [path, value] : bridge_values(plan)) {
      EXPECT_TRUE(known.contains(path)) << path;
    }
  }
}

TEST(MegatronBridge, SaysEveryFlagOfMegatron) {
  // What Bridge derives by itself, or is told in another form, which other tests look at.
  const std::set<std::string> elsewhere = {"--group-query-attention",
                                           "--max-position-embeddings",
                                           "--bf16",
                                           "--fp16",
                                           "--swiglu",
                                           "--squared-relu",
                                           "--fp8-param-gather",
                                           "--grad-reduce-in-bf16",
                                           "--overlap-grad-reduce",
                                           "--overlap-param-gather",
                                           "--no-overlap-p2p-communication",
                                           "--tp-comm-overlap",
                                           "--overlap-moe-expert-parallel-comm"};
  for (const Plan& plan : bridge_plans()) {
    std::set<std::string> parts;
    for (const BridgeSetting& setting : bridge_settings(plan)) {
      parts.insert(setting.part);
    }
    for (const auto& list : {megatron_model_arguments(plan), megatron_plan_arguments(plan)}) {
      for (const MegatronArgument& argument : list) {
        EXPECT_TRUE(elsewhere.contains(argument.flag) || parts.contains(argument.part))
            << argument.flag;
      }
    }
  }
}

TEST(MegatronBridge, SpellsADensePlan) {
  const std::map<std::string, std::string> expected = {
      {"model.num_layers", "80"},
      {"model.hidden_size", "8192"},
      {"model.ffn_hidden_size", "28672"},
      {"model.num_attention_heads", "64"},
      {"model.kv_channels", "128"},
      {"model.num_query_groups", "8"},
      {"model.seq_length", "8192"},
      {"dataset.seq_length", "8192"},
      {"tokenizer.vocab_size", "128256"},
      {"model.vocab_size", "128512"},  // the next multiple of 128·4
      {"model.make_vocab_size_divisible_by", "128"},
      {"model.position_embedding_type", "\"rope\""},
      {"model.rotary_base", "500000"},
      {"model.normalization", "\"RMSNorm\""},
      {"model.layernorm_epsilon", "1e-05"},
      {"model.init_method_std", "0.02"},
      {"model.gated_linear_unit", "True"},
      {"model.activation_func", "\"silu\""},
      {"model.bias_activation_fusion", "True"},
      {"model.bias_dropout_fusion", "True"},
      {"model.persist_layer_norm", "True"},
      {"model.apply_rope_fusion", "True"},
      {"model.attention_backend", "AttnBackend.fused"},
      {"model.add_bias_linear", "False"},
      {"model.share_embeddings_and_output_weights", "False"},
      {"model.attention_dropout", "0"},
      {"model.hidden_dropout", "0"},
      {"model.tensor_model_parallel_size", "4"},
      {"model.pipeline_model_parallel_size", "4"},
      {"model.virtual_pipeline_model_parallel_size", "5"},
      {"model.sequence_parallel", "True"},
      {"train.micro_batch_size", "1"},
      {"train.global_batch_size", "256"},
      {"model.recompute_granularity", "\"selective\""},
      {"model.recompute_modules", "[\"core_attn\"]"},
      {"ddp.use_distributed_optimizer", "True"},
      {"optimizer.use_distributed_optimizer", "True"},
      {"mixed_precision.grad_reduce_in_fp32", "True"},
      {"ddp.overlap_grad_reduce", "True"},
      {"comm_overlap.overlap_grad_reduce", "True"},
      {"ddp.overlap_param_gather", "True"},
      {"comm_overlap.overlap_param_gather", "True"},
      {"ddp.bucket_size", "40000000"},
      {"comm_overlap.bucket_size", "40000000"},
      {"comm_overlap.overlap_p2p_comm", "True"},
      {"comm_overlap.batch_p2p_comm", "False"},
      {"comm_overlap.tp_comm_overlap", "False"},
      {"comm_overlap.overlap_moe_expert_parallel_comm", "False"}};
  EXPECT_EQ(bridge_values(dense_bridge_plan()), expected);
}

TEST(MegatronBridge, BuildsDenseLayersAmongLayersWithExperts) {
  // GPTModelProvider's own layers are all alike: DeepSeek-V3's first three have no experts.
  std::map<std::string, std::string> settings = bridge_values(expert_bridge_plan());
  EXPECT_EQ(settings["model.moe_layer_freq"], "([0]*3+[1]*58)");
  EXPECT_EQ(settings["model.transformer_layer_spec"],
            "partial(get_gpt_decoder_block_spec, use_transformer_engine=True)");
  EXPECT_EQ(settings["model.multi_latent_attention"], "True");
  EXPECT_EQ(settings["model.attention_backend"], "AttnBackend.auto");
  EXPECT_EQ(settings["model.expert_tensor_parallel_size"], "1");
  EXPECT_THAT(bridge_python_file(expert_bridge_plan()), HasSubstr("model=MLAModelProvider(),"));
}

TEST(MegatronBridge, ShardsFullyAndComputesIn8Bits) {
  std::map<std::string, std::string> settings = bridge_values(fully_sharded_plan());
  EXPECT_EQ(settings["comm_overlap.tp_comm_overlap"], "False");  // tp is 1
  EXPECT_EQ(settings["ddp.use_megatron_fsdp"], "True");
  EXPECT_EQ(settings["dist.use_megatron_fsdp"], "True");
  EXPECT_EQ(settings["ddp.data_parallel_sharding_strategy"], "\"optim_grads_params\"");
  EXPECT_EQ(settings["checkpoint.ckpt_format"], "\"fsdp_dtensor\"");
  EXPECT_EQ(settings["mixed_precision.fp8"], "\"hybrid\"");
  EXPECT_EQ(settings["model.window_size"], "(4095,0)");
  // Bridge refuses one connection with Megatron-FSDP.
  EXPECT_THAT(bridge_python_file(fully_sharded_plan()),
              HasSubstr("\"CUDA_DEVICE_MAX_CONNECTIONS\": \"8\""));
}

TEST(MegatronBridge, RepeatsResultsWhereTheStackDoes) {
  const Scenario scenario =
      shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025-deterministic", 64);
  const Plan plan = plan_of(scenario, {.dp = 8, .zero_stage = 1});
  std::map<std::string, std::string> settings = bridge_values(plan);
  EXPECT_EQ(settings["model.deterministic_mode"], "True");
  EXPECT_EQ(settings["model.gradient_accumulation_fusion"], "False");
  EXPECT_EQ(settings["model.cross_entropy_loss_fusion"], "False");
  EXPECT_THAT(bridge_python_file(plan), HasSubstr("\"NVTE_ALLOW_NONDETERMINISTIC_ALGO\": \"0\""));
}

TEST(MegatronBridge, ComputesIn4Bits) {
  Scenario scenario = shipped_scenario("llama-3-70b", "dgx-gb300", "megatron-bridge-2025", 256);
  scenario.stack = with_precision(scenario.stack, "nvfp4");
  std::map<std::string, std::string> settings =
      bridge_values(bridge_plan(scenario, {.pp = 4, .dp = 16, .zero_stage = 1}));
  EXPECT_EQ(settings["mixed_precision.fp4"], "\"e2m1\"");
  EXPECT_EQ(settings["mixed_precision.fp4_recipe"], "\"nvfp4\"");
  EXPECT_EQ(settings["mixed_precision.fp4_param_gather"], "True");
  EXPECT_FALSE(settings.contains("mixed_precision.fp8"));
}

TEST(MegatronBridge, SpellsAGptOf2021) {
  std::map<std::string, std::string> settings = bridge_values(gpt_bridge_plan());
  EXPECT_EQ(settings["model.activation_func"], "\"gelu\"");
  EXPECT_EQ(settings["model.bias_activation_fusion"], "True");
  EXPECT_EQ(settings["dist.use_tp_pp_dp_mapping"], "True");
  EXPECT_EQ(settings["model.recompute_method"], "\"uniform\"");
  EXPECT_EQ(settings["comm_overlap.overlap_p2p_comm"], "False");
  EXPECT_EQ(settings["comm_overlap.batch_p2p_comm"], "True");
  EXPECT_EQ(settings["model.attention_backend"], "AttnBackend.unfused");
  EXPECT_THAT(bridge_python_file(gpt_bridge_plan()), HasSubstr("\"fp16_mixed\""));
}

TEST(MegatronBridge, RefusesNothingOfPlansThatItRuns) {
  for (const Plan& plan : bridge_plans()) {
    EXPECT_THAT(bridge_refused(plan), IsEmpty());
  }
}

TEST(MegatronBridge, RefusesWhatMegatronCannotRun) {
  Plan plan = gpt_bridge_plan();
  plan.config.schedule = ScheduleKind::kGPipe;
  EXPECT_THAT(bridge_refused(plan), ElementsAre("schedule"));
}

TEST(MegatronBridge, RefusesToRepeatExpertsWhoseMessagesAreHidden) {
  Plan plan = expert_bridge_plan();
  plan.config.pp = 1;
  plan.config.recompute = Recompute::kSelective;
  plan.config.recompute_modules = {RecomputeModule::kMoe};
  plan.scenario.stack.expert_overlap = true;
  plan.scenario.stack.expert_dispatch = ExpertDispatch::kAllToAll;
  EXPECT_THAT(bridge_refused(plan), ElementsAre("recompute_modules"));
  plan.scenario.stack.precision = Precision::kFp32;
  EXPECT_THAT(bridge_refused(plan), ElementsAre("recompute_modules", "precision"));
}

TEST(MegatronBridge, GivesMlpsOfDenseModelsTheReplicasOfAttention) {
  // parallel_state.py makes a grid of experts of dense models, too. In this order of ranks it must
  // have as many replicas as attention, 64/(tp·pp·cp) = 8, so that tp·cp ranks share an MLP there.
  Plan plan = gpt_bridge_plan();
  plan.config.cp = 2;
  EXPECT_THAT(bridge_refused(plan), IsEmpty());
  EXPECT_EQ(bridge_values(plan).at("model.expert_tensor_parallel_size"),
            std::to_string(plan.config.tp * plan.config.cp));
}

TEST(MegatronBridge, StartsAllProcessesOfThePlan) {
  const Export exported = megatron_bridge_export(expert_bridge_plan());
  ASSERT_EQ(exported.files.size(), 2U);
  EXPECT_EQ(exported.files[0].name, "plan_config.py");
  EXPECT_THAT(exported.files[1].content, HasSubstr("torchrun --nnodes=128 --nproc-per-node=8"));
  EXPECT_THAT(exported.files[1].content, HasSubstr("\"$CONFIG\" \\\n  $DATA_ARGS"));
  EXPECT_THAT(exported.differences, testing::Contains(HasSubstr("hierarchical dispatch")));
}

}  // namespace
}  // namespace ptdp
