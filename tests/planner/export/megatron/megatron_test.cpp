// Tests of Megatron-LM's arguments against its own lists of flags and hand-written commands.
#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <sstream>

#include "cost_model/inputs/stack_precision.h"
#include "planner/export/megatron/megatron_layout.h"
#include "tests/planner/export/exports.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Returns a plan of 1T on 3072 GPUs as in SC21, table 1: 512 microbatches of one sequence.
Plan plan_1t() {
  return plan_of(
      selene_2021("1T"),
      {.tp = 8, .pp = 64, .dp = 6, .micro_batch_size = 1, .recompute = Recompute::kFull});
}

/// Returns a small model with four experts: 8 layers of width 512.
Scenario small_experts() {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 32);
  scenario.job = {.model_name = "small-experts",
                  .model = resolved({.num_layers = 8,
                                     .hidden_size = 512,
                                     .num_attention_heads = 8,
                                     .num_query_groups = 2,
                                     .ffn_hidden_size = 1024,
                                     .vocab_size = 32000,
                                     .seq_length = 4096,
                                     .gated_linear_unit = true,
                                     .add_bias_linear = false,
                                     .untied_embeddings = true,
                                     .position_embedding = PositionEmbedding::kRope,
                                     .normalization = Normalization::kRmsNorm,
                                     .num_experts = 4,
                                     .moe_router_topk = 2},
                                    "small-experts"),
                  .global_batch_size = 32};
  return scenario;
}

constexpr ParallelConfig kSmall = {.tp = 2,
                                   .pp = 2,
                                   .dp = 4,
                                   .ep = 2,
                                   .vpp = 2,
                                   .schedule = ScheduleKind::kInterleaved,
                                   .sequence_parallel = true,
                                   .zero_stage = 1};
/// A configuration without parallelism, which refuses nothing.
constexpr ParallelConfig kPlain = {.dp = 8};

std::string arguments_of(const Plan& plan) {
  EXPECT_THAT(megatron_refusals(plan), IsEmpty());
  return megatron_export(plan).files.at(1).content;
}

std::string script_of(const Plan& plan) {
  return megatron_export(plan).files.at(0).content;
}

/// Returns the first word of each line of a file, comments aside.
std::set<std::string> first_words(const std::string& text) {
  std::set<std::string> words;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("#")) {
      words.insert(line.substr(0, line.find_first_of("\t ")));
    }
  }
  return words;
}

std::set<std::string> published_flags(const std::string& name) {
  std::ifstream file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/frameworks/" + name);
  std::stringstream text;
  text << file.rdbuf();
  return first_words(text.str());
}

/// Returns the fields that are refused, in order.
std::vector<std::string> refused(const Plan& plan) {
  return fields_of(megatron_refusals(plan));
}

// The model of SC21's largest run: 160 heads of 160, V = 51200, whole layers recomputed one by one.
TEST(Megatron, SaysTheLargestRunOfSc21) {
  EXPECT_EQ(arguments_of(plan_1t()),
            "--num-layers 128\n--hidden-size 25600\n--ffn-hidden-size 102400\n"
            "--num-attention-heads 160\n--kv-channels 160\n"
            "--seq-length 2048\n--max-position-embeddings 2048\n"
            "--vocab-size 51200\n--make-vocab-size-divisible-by 128\n"
            "--position-embedding-type learned_absolute\n"
            "--normalization LayerNorm\n--norm-epsilon 1e-05\n--init-method-std 0.02\n"
            "--attention-dropout 0\n--hidden-dropout 0.1\n"
            "--tensor-model-parallel-size 8\n--pipeline-model-parallel-size 64\n"
            "--micro-batch-size 1\n--global-batch-size 3072\n"
            "--recompute-granularity full\n--recompute-method uniform\n--recompute-num-layers 1\n"
            "--fp16\n"
            "--train-iters 20\n--lr 1.0e-4\n--min-lr 1.0e-5\n--lr-decay-style cosine\n"
            "--clip-grad 1.0\n--weight-decay 0.1\n--attention-backend unfused\n"
            "--eval-iters 0\n--log-interval 1\n--log-throughput\n");
}

TEST(Megatron, SaysExpertsAndInterleaving) {
  EXPECT_EQ(arguments_of(plan_of(small_experts(), kSmall)),
            "--num-layers 8\n--hidden-size 512\n--ffn-hidden-size 1024\n"
            "--num-attention-heads 8\n--kv-channels 64\n"
            "--group-query-attention\n--num-query-groups 2\n"
            "--seq-length 4096\n--max-position-embeddings 4096\n"
            "--vocab-size 32000\n--make-vocab-size-divisible-by 128\n"
            "--position-embedding-type rope\n--rotary-base 10000\n"
            "--normalization RMSNorm\n--norm-epsilon 1e-05\n--init-method-std 0.02\n"
            "--swiglu\n--disable-bias-linear\n--untie-embeddings-and-output-weights\n"
            "--attention-dropout 0\n--hidden-dropout 0\n"
            "--num-experts 4\n--moe-router-topk 2\n--moe-ffn-hidden-size 1024\n"
            "--moe-layer-freq '([1]*8)'\n--moe-grouped-gemm\n"
            "--moe-token-dispatcher-type alltoall\n"
            "--tensor-model-parallel-size 2\n--pipeline-model-parallel-size 2\n"
            "--expert-model-parallel-size 2\n--expert-tensor-parallel-size 1\n"
            "--micro-batch-size 1\n--global-batch-size 32\n"
            "--num-virtual-stages-per-pipeline-rank 2\n"
            "--sequence-parallel\n--use-distributed-optimizer\n"
            "--overlap-grad-reduce\n--overlap-param-gather\n--bf16\n"
            "--train-iters 20\n--lr 1.0e-4\n--min-lr 1.0e-5\n--lr-decay-style cosine\n"
            "--clip-grad 1.0\n--weight-decay 0.1\n--attention-backend fused\n"
            "--eval-iters 0\n--log-interval 1\n--log-throughput\n");
}

TEST(Megatron, SwitchesFusedKernelsOff) {
  for (const auto& [model, of_activation] : {std::pair("gpt-tiny", "--no-bias-gelu-fusion"),
                                             std::pair("llama-3-8b", "--no-bias-swiglu-fusion")}) {
    Scenario scenario = shipped_scenario(model, "dgx-h100", "megatron-core-2025", 64);
    for (const bool is_fused : {true, false}) {
      scenario.stack.fused_element_wise = is_fused;
      const std::set<std::string> written =
          first_words(arguments_of(plan_of(scenario, {.dp = 8, .zero_stage = 1})));
      for (const char* flag :
           {of_activation, "--no-bias-dropout-fusion", "--no-masked-softmax-fusion"}) {
        EXPECT_EQ(written.contains(flag), !is_fused) << model << flag;
      }
    }
  }
}

// What a plan needs must be in the release and in the branch.
TEST(Megatron, WritesFlagsThatThereAre) {
  std::set<std::string> written;
  for (const char* model : {"gpt-tiny", "nemotron-4-15b", "mistral-7b", "qwen2.5-7b",
                            "qwen3-30b-a3b", "deepseek-v3", "llama-3-70b"}) {
    for (const char* stack : {"megatron-core-2025", "megatron-bridge-2025"}) {
      Scenario scenario = shipped_scenario(model, "dgx-b200", stack, 64);
      const bool has_ep = has_experts(scenario.job.model);
      for (const ParallelConfig& config :
           std::vector<ParallelConfig>{{.dp = 8, .zero_stage = 3},
                                       {.dp = 8, .zero_stage = 2},
                                       {.dp = 8, .recompute = Recompute::kSelective},
                                       {.dp = 8, .zero_stage = 1, .dp_replicate = 2},
                                       {.dp = 8, .zero_stage = 1, .offload = Offload::kOptimizer},
                                       {.dp = 8, .offload = Offload::kActivations},
                                       {.tp = 2,
                                       .dp = 4,
                                       .cp = 2,
                                       .ep = has_ep ? 4 : 1,
                                       .recompute = Recompute::kFull,
                                       .sequence_parallel = true,
                                       .zero_stage = 1,
                                       .rank_order = RankOrder::kTpCpEpPpDp},
                                       {.dp = 8, .ep = has_ep ? 8 : 1}}) {
        for (const std::optional<Fp8Scaling> scaling :
             {std::optional<Fp8Scaling>(), std::optional(Fp8Scaling::kMx),
              std::optional(Fp8Scaling::kNvfp4)}) {
          if (scaling == Fp8Scaling::kNvfp4 && offloads_optimizer(config.offload)) {
            continue;  // refused where weights exist in 4 bits alone
          }
          scenario.stack.fp8 = scaling;
          scenario.stack.expert_overlap = scaling.has_value();
          scenario.stack.fused_element_wise = scaling.has_value();
          written.merge(first_words(arguments_of(plan_of(scenario, config))));
        }
      }
    }
  }
  written.merge(first_words(arguments_of(plan_of(small_experts(), kSmall))));
  EXPECT_GT(written.size(), 70U);
  for (const char* list : {"megatron_core_0.19.2.txt", "megatron_lm_d98e8a6.txt"}) {
    const std::set<std::string> known = published_flags(list);
    ASSERT_GT(known.size(), 800U) << list;
    for (const std::string& flag : written) {
      EXPECT_TRUE(known.contains(flag)) << flag << " in " << list;
    }
  }
}

// Latent attention has norms of its latents with --qk-layernorm only: 671 026 419 200 parameters.
TEST(Megatron, NormsTheLatentsOfLatentAttention) {
  const Scenario scenario = shipped_scenario("deepseek-v3", "dgx-h100", "megatron-core-2025", 64);
  EXPECT_THAT(arguments_of(plan_of(scenario, kPlain)), HasSubstr("\n--qk-layernorm\n"));
}

// A dense model has an expert grid too, of tp·1 ranks: its data-parallel size must be dp.
TEST(Megatron, OrdersReplicasFarthestWithContextParallelism) {
  const Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
  const Plan plan =
      plan_of(scenario, {.tp = 2, .pp = 2, .dp = 2, .cp = 4, .rank_order = RankOrder::kTpCpEpPpDp});
  EXPECT_THAT(arguments_of(plan),
              HasSubstr("\n--use-tp-pp-dp-mapping\n--expert-tensor-parallel-size 8\n"));
}

TEST(Megatron, SetsTheConnectionsThatTheParserDemands) {
  const auto connections = [](const char* cluster, const ParallelConfig& config) {
    const std::string script = script_of(
        plan_of(shipped_scenario("llama-3-8b", cluster, "megatron-core-2025", 64), config));
    const std::string name = "export CUDA_DEVICE_MAX_CONNECTIONS=";
    const std::size_t at = script.find(name);
    return at == std::string::npos
               ? ""
               : script.substr(at + name.size(), script.find('\n', at) - at - name.size());
  };
  EXPECT_EQ(connections("dgx-h100", {.dp = 8}), "");
  EXPECT_EQ(connections("dgx-h100", {.tp = 2, .dp = 4}), "1");
  EXPECT_EQ(connections("dgx-h100", {.dp = 4, .cp = 2}), "1");
  EXPECT_EQ(connections("dgx-b200", {.tp = 2, .dp = 4}), "32");
  EXPECT_EQ(connections("dgx-h100", {.tp = 2, .dp = 4, .zero_stage = 3}), "8");
}

// As Megatron-LM's own tests of that mode run (tests/functional_tests, gpt3_7b_tp1_pp4).
TEST(Megatron, TellsAStackWhoseResultsRepeat) {
  const Plan plan = plan_of(
      shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025-deterministic", 64), kPlain);
  EXPECT_THAT(arguments_of(plan),
              HasSubstr("\n--deterministic-mode\n--no-gradient-accumulation-fusion\n"));
  for (const char* variable : {"NCCL_ALGO=Ring", "NVTE_ALLOW_NONDETERMINISTIC_ALGO=0",
                               "CUBLAS_WORKSPACE_CONFIG=:4096:8"}) {
    EXPECT_THAT(script_of(plan), HasSubstr("export " + std::string(variable) + "\n"));
  }
  EXPECT_THAT(script_of(plan_1t()), Not(HasSubstr("eterministic")));
  Plan overlapped = plan;
  overlapped.scenario.stack.tp_comm_overlap = TpCommOverlap::kUserBuffers;
  EXPECT_THAT(refused(overlapped), ElementsAre("tp_comm_overlap"));
}

// TransformerEngine multiplies fp32 numbers in TF32 (cublaslt_gemm.cu), PyTorch does not by itself.
TEST(Megatron, TellsTf32FromFp32ByVariables) {
  const auto script = [](std::string_view precision) {
    Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64);
    scenario.stack = with_precision(scenario.stack, precision);
    const Plan plan = plan_of(scenario, kPlain);
    EXPECT_THAT(arguments_of(plan), Not(HasSubstr("--bf16")));
    EXPECT_THAT(arguments_of(plan), HasSubstr("--attention-backend unfused\n"));
    return script_of(plan);
  };
  EXPECT_THAT(script("fp32"), HasSubstr("export NVIDIA_TF32_OVERRIDE=0\n"));
  EXPECT_THAT(script("tf32"), HasSubstr("export TORCH_ALLOW_TF32_CUBLAS_OVERRIDE=1\n"));
  EXPECT_THAT(script_of(plan_1t()), Not(HasSubstr("TF32")));
}

// --fp4-param-gather is for weights that exist in 4 bits alone, which megatron-bridge-2025 has.
TEST(Megatron, TrainsIn4Bits) {
  const auto arguments = [](const char* stack) {
    Scenario scenario = shipped_scenario("llama-3-8b", "dgx-gb300", stack, 64);
    scenario.stack = with_precision(scenario.stack, "nvfp4");
    return arguments_of(plan_of(scenario, {.dp = 8, .zero_stage = 1}));
  };
  const std::string core = arguments("megatron-core-2025");
  EXPECT_THAT(core, HasSubstr("--bf16\n"));
  EXPECT_THAT(core, HasSubstr("--fp4-format e2m1\n"));
  EXPECT_THAT(core, HasSubstr("--fp4-recipe nvfp4\n"));
  EXPECT_THAT(core, Not(HasSubstr("--fp4-param-gather")));
  EXPECT_THAT(core, Not(HasSubstr("--fp8")));
  EXPECT_THAT(arguments("megatron-bridge-2025"), HasSubstr("--fp4-param-gather\n"));
}

// --attention-backend refuses these variables where they say something else (language_module.py).
TEST(Megatron, LeavesAttentionToItsFlag) {
  EXPECT_THAT(script_of(plan_1t()), Not(HasSubstr("NVTE_")));
}

TEST(MegatronLayout, SpellsEveryVirtualStage) {
  Plan plan = plan_of(small_experts(), kSmall);
  EXPECT_FALSE(needs_megatron_layout(plan));
  plan.schedule.layers_per_stage = {2, 3, 3, 0};
  EXPECT_TRUE(needs_megatron_layout(plan));
  EXPECT_EQ(megatron_layout(plan), "Et*2|t*3|t*3|L");
  plan.schedule.layers_per_stage = {0, 3, 3, 2};
  EXPECT_EQ(megatron_layout(plan), "E|t*3|t*3|t*2L");
  plan.scenario.job.model.mtp_num_layers = 1;
  EXPECT_EQ(megatron_layout(plan), "E|t*3|t*3|t*2m*1L");
}

TEST(MegatronLayout, ReplacesTheNumberOfVirtualStages) {
  ParallelConfig config = kSmall;
  config.layers_per_stage = {1, 2, 3, 2};
  const std::string arguments = arguments_of(plan_of(small_experts(), config));
  EXPECT_THAT(arguments, HasSubstr("--pipeline-model-parallel-layout 'Et*1|t*2|t*3|t*2L'\n"));
  EXPECT_THAT(arguments, Not(HasSubstr("--num-virtual-stages")));
}

TEST(MegatronLists, AreWrittenAsPython) {
  EXPECT_EQ(python_list({0, 0, 0, 1, 1}), "([0]*3+[1]*2)");
  EXPECT_EQ(python_list({1}), "([1]*1)");
}

/// One plan that Megatron-LM cannot run, and the field that says why.
struct Refused {
  const char* field;
  void (*change)(Plan& plan);
};

// Each changes a plan of experts with an interleaved pipeline, all of whose rest is run.
TEST(MegatronRefusals, NameWhatAPipelineCannotRun) {
  const std::vector<Refused> rows = {
      {"schedule", [](Plan& p) { p.config.schedule = ScheduleKind::kZbH1; }},
      {"precision", [](Plan& p) { p.scenario.stack.precision = Precision::kFp64; }},
      {"zero_stage", [](Plan& p) { p.config.zero_stage = 3; }},
      {"schedule.microbatch_group_size", [](Plan& p) { p.schedule.microbatch_group_size = 1; }},
      {"schedule.microbatch_group_size", [](Plan& p) { p.schedule.microbatch_group_size = 9; }},
      {"schedule.num_microbatches", [](Plan& p) { p.schedule.num_microbatches = 7; }},
      {"sequence_parallel", [](Plan& p) { p.config.sequence_parallel = false; }},
      {"offload", [](Plan& p) { p.config.offload = Offload::kActivations; }},
      {"ep and etp", [](Plan& p) { p.config.etp = 5; }},
      {"rank_order",
       [](Plan& p) {
         p.config.etp = 2;
         p.config.rank_order = RankOrder::kTpCpEpPpDp;
       }},
      {"etp",
       [](Plan& p) {
         p.config.etp = 2;
         p.scenario.job.model.add_bias_linear = true;
       }},
      {"cp",
       [](Plan& p) {
         p.config.cp = 2;
         p.scenario.job.model.seq_length = 4098;
       }},
      {"dp_replicate",
       [](Plan& p) {
         p.config.zero_stage = 0;
         p.config.dp_replicate = 2;
       }},
      {"recompute_method",
       [](Plan& p) {
         p.config.recompute = Recompute::kFull;
         p.config.recompute_method = RecomputeMethod::kEvery;
         p.config.recompute_num_layers = 2;
       }},
      {"recompute_num_layers",
       [](Plan& p) {
         p.config.recompute = Recompute::kFull;
         p.config.recompute_num_layers = 3;
       }},
      {"GPUs",
       [](Plan& p) {
         p.config.dp = 3;
         p.scenario.cluster.gpus_per_node = 8;
       }},
  };
  const Plan plan = plan_of(small_experts(), kSmall);
  EXPECT_THAT(refused(plan), IsEmpty());
  for (const Refused& row : rows) {
    Plan changed = plan;
    row.change(changed);
    EXPECT_THAT(refused(changed), ElementsAre(row.field));
  }
}

// Each changes a plan with neither pipeline nor tensor parallelism.
TEST(MegatronRefusals, NameWhatReplicasCannotRun) {
  const std::vector<Refused> rows = {
      {"dp_replicate",
       [](Plan& p) {
         p.config.zero_stage = 3;
         p.config.dp_replicate = 2;
       }},
      {"reshard_after_forward",
       [](Plan& p) {
         p.config.zero_stage = 3;
         p.config.reshard_after_forward = false;
       }},
      {"rank_order",
       [](Plan& p) {
         p.config.zero_stage = 3;
         p.config.rank_order = RankOrder::kTpCpEpPpDp;
       }},
      {"offload", [](Plan& p) { p.config.offload = Offload::kOptimizer; }},
      {"offload",
       [](Plan& p) {
         p.config.offload = Offload::kActivations;
         p.config.recompute = Recompute::kFull;
       }},
      {"offload",
       [](Plan& p) {
         p.config.zero_stage = 1;
         p.config.offload = Offload::kOptimizer;
         p.scenario.stack = find_stack("megatron-bridge-2025");
         p.scenario.stack.fp8 = Fp8Scaling::kCurrent;
       }},
      {"precision",
       [](Plan& p) {
         p.scenario.stack.precision = Precision::kFp16;
         p.scenario.stack.fp8 = Fp8Scaling::kDelayed;
       }},
      {"precision",
       [](Plan& p) {
         p.scenario.stack = with_precision(find_stack("torchtitan-2024"), "fp8-rowwise");
       }},
      {"recompute_modules",
       [](Plan& p) {
         p.config.recompute = Recompute::kSelective;
         p.config.recompute_modules = {RecomputeModule::kEverySecondProduct};
       }},
      {"recompute_modules",
       [](Plan& p) {
         p.config.recompute = Recompute::kSelective;
         p.config.recompute_modules = {RecomputeModule::kMoeActivation};
       }},
      {"recompute_modules",
       [](Plan& p) {
         p.config.recompute = Recompute::kSelective;
         p.config.recompute_modules = {RecomputeModule::kMlaUpProjection};
       }},
      {"recompute_modules",
       [](Plan& p) {
         p.config.recompute = Recompute::kSelective;
         p.config.recompute_modules = {RecomputeModule::kLayerNorm};
         p.scenario.stack.fp8 = Fp8Scaling::kDelayed;
       }},
      {"activation_func",
       [](Plan& p) {
         p.scenario.job.model.gated_linear_unit = false;
         p.scenario.job.model.activation_func = Activation::kTanh;
       }},
      {"add_projection_bias or add_mlp_bias",
       [](Plan& p) { p.scenario.job.model.add_mlp_bias = true; }},
      {"scale_attn_by_inverse_layer_idx",
       [](Plan& p) { p.scenario.job.model.scale_attn_by_inverse_layer_idx = true; }},
      {"scale_attn_weights", [](Plan& p) { p.scenario.job.model.scale_attn_weights = false; }},
      {"dropout_rates.embedding",
       [](Plan& p) {
         p.scenario.job.model.dropout = true;
         p.scenario.job.model.dropout_rates.embedding = 0.2;
       }},
      {"position_embedding",
       [](Plan& p) {
         p.scenario.job.model.dropout = false;
         p.scenario.job.model.position_embedding = PositionEmbedding::kLearned;
         p.scenario.job.model.mtp_num_layers = 1;
       }},
  };
  const Plan plan =
      plan_of(shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025", 64), kPlain);
  EXPECT_THAT(refused(plan), IsEmpty());
  for (const Refused& row : rows) {
    Plan changed = plan;
    row.change(changed);
    EXPECT_THAT(refused(changed), ElementsAre(row.field));
  }
}

// --overlap-moe-expert-parallel-comm runs beside neither of these (transformer_config.py).
TEST(MegatronRefusals, NameWhatHiddenDispatchCannotRun) {
  Plan plan = plan_of(small_experts(), kSmall);
  plan.scenario.stack.expert_overlap = true;
  EXPECT_THAT(refused(plan), IsEmpty());
  EXPECT_THAT(arguments_of(plan), HasSubstr("--overlap-moe-expert-parallel-comm\n"));
  Plan recomputing = plan;
  recomputing.config.recompute = Recompute::kSelective;
  recomputing.config.recompute_modules = {RecomputeModule::kMoe};
  EXPECT_THAT(refused(recomputing), ElementsAre("recompute_modules"));
  plan.scenario.stack.precision = Precision::kFp32;
  EXPECT_THAT(refused(plan), ElementsAre("precision"));
}

}  // namespace
}  // namespace ptdp
