// Tests of torchtitan's command lines and TOML against its lists of keys and hand-written files.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "cost_model/inputs/stack_precision.h"
#include "planner/export/torchtitan/torchtitan_model.h"
#include "planner/export/torchtitan/torchtitan_settings.h"
#include "tests/planner/export/exports.h"
#include "tests/support/scenarios.h"

namespace ptdp {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Scenario llama() {
  return shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024", 64);
}
/// Two stages of 16 layers, tensor parallelism of 4 and 8 replicas: 8 microbatches of one sequence.
constexpr ParallelConfig kPipeline = {.tp = 4,
                                      .pp = 2,
                                      .dp = 8,
                                      .recompute = Recompute::kFull,
                                      .sequence_parallel = true,
                                      .zero_stage = 3};
/// Shards over 8 GPUs and nothing else, which neither release refuses.
constexpr ParallelConfig kShards = {.dp = 8, .zero_stage = 3};

std::vector<std::string> refused(const Scenario& scenario, const ParallelConfig& config) {
  return fields_of(torchtitan_refusals(plan_of(scenario, config)));
}
std::vector<std::string> refused_by_toml(const Scenario& scenario, const ParallelConfig& config) {
  return fields_of(torchtitan_toml_refusals(plan_of(scenario, config)));
}

std::string arguments_of(const Scenario& scenario, const ParallelConfig& config) {
  EXPECT_THAT(refused(scenario, config), IsEmpty());
  return content_of(torchtitan_export(plan_of(scenario, config)), "arguments.txt");
}
std::string toml_of(const Scenario& scenario, const ParallelConfig& config) {
  EXPECT_THAT(refused_by_toml(scenario, config), IsEmpty());
  return content_of(torchtitan_toml_export(plan_of(scenario, config)), "plan.toml");
}

TEST(Torchtitan, CommandLineOfTwoStagesIsAsWrittenByHand) {
  EXPECT_EQ(arguments_of(llama(), kPipeline),
            R"(--module torchtitan_plan
--config mock_data
--training.local_batch_size 8
--training.global_batch_size 64
--training.seq_len 8192
--training.dtype float32
--training.mixed_precision_param bfloat16
--training.mixed_precision_reduce float32
--training.disable_cuda_graphs
--parallelism.tensor_parallel_degree 4
--parallelism.enable_sequence_parallel
--parallelism.pipeline_parallel_degree 2
--parallelism.pipeline_parallel_schedule 1F1B
--parallelism.pipeline_parallel_microbatch_size 1
--parallelism.pipeline_parallel_first_stage_less_layers 0
--parallelism.pipeline_parallel_last_stage_less_layers 0
--parallelism.pipeline_parallel_layers_per_stage 16
--parallelism.data_parallel_replicate_degree 1
--parallelism.data_parallel_shard_degree 8
--parallelism.fsdp_reshard_after_forward default
--parallelism.context_parallel_degree 1
--compile.enable
--compile.enable_async_tensor_parallel
--training.steps 20
--lr_scheduler.warmup_steps 2
--metrics.log_freq 1
activation-checkpoint:full
)");
}

TEST(Torchtitan, TomlOfReplicatedShardsIsAsWrittenByHand) {
  Scenario scenario = llama();
  scenario.stack = with_fp8(scenario.stack, "fp8");
  const ParallelConfig config = {.dp = 16,
                                 .micro_batch_size = 2,
                                 .recompute = Recompute::kFull,
                                 .recompute_method = RecomputeMethod::kEvery,
                                 .recompute_num_layers = 2,
                                 .zero_stage = 3,
                                 .dp_replicate = 2};
  const std::string text = toml_of(scenario, config);
  EXPECT_EQ(text.substr(text.find("\n\n") + 2), R"([activation_checkpoint]
mode = "selective"
selective_ac_option = "2"
early_stop = true

[compile]
enable = true

[lr_scheduler]
warmup_steps = 2

[metrics]
log_freq = 1

[model]
name = "llama3"
flavor = "8B"
converters = ["quantize.linear.float8"]

[parallelism]
tensor_parallel_degree = 1
pipeline_parallel_degree = 1
data_parallel_replicate_degree = 2
data_parallel_shard_degree = 8
fsdp_reshard_after_forward = "default"
context_parallel_degree = 1
enable_async_tensor_parallel = false

[quantize.linear.float8]
enable_fsdp_float8_all_gather = true
precompute_float8_dynamic_scale_for_fsdp = true
filter_fqns = ["output"]

[training]
local_batch_size = 2
global_batch_size = 64
seq_len = 8192
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
steps = 20
)");
}

TEST(Torchtitan, UnevenStagesAreListsOfModules) {
  ParallelConfig config = kPipeline;
  config.layers_per_stage = {32, 0};
  EXPECT_THAT(arguments_of(llama(), config), HasSubstr(",layers.31 norm,lm_head\n"));
  EXPECT_THAT(toml_of(llama(), config), HasSubstr("  [\"norm\", \"output\"],\n]"));
  config.pp = 4;
  config.layers_per_stage = {16, 0, 15, 1};
  EXPECT_THAT(refused(llama(), config), ElementsAre("layers_per_stage"));
}

TEST(Torchtitan, SchedulesThatTorchLacksAreFiles) {
  const std::string by_file = "pipeline_parallel_schedule_csv schedule.csv";
  struct Case {
    ScheduleKind schedule;
    int vpp;
    std::string name;
    bool has_file;
  };
  const std::vector<Case> cases = {{ScheduleKind::kOneFOneB, 1, "1F1B", false},
                                   {ScheduleKind::kGPipe, 1, "GPipe", false},
                                   {ScheduleKind::kInterleaved, 2, "Interleaved1F1B", false},
                                   {ScheduleKind::kLoopedBfs, 2, "LoopedBFS", false},
                                   {ScheduleKind::kLoopedBfs, 1, "1F1B", true},
                                   {ScheduleKind::kZbV, 2, "ZBVZeroBubble", false},
                                   {ScheduleKind::kDualPipeV, 2, "DualPipeV", false},
                                   {ScheduleKind::kZbH1, 1, "1F1B", true},
                                   {ScheduleKind::kZbH2, 1, "1F1B", true},
                                   {ScheduleKind::kZbAuto, 1, "1F1B", true},
                                   {ScheduleKind::kVHalf, 2, "ZBVZeroBubble", true},
                                   {ScheduleKind::kVMin, 2, "ZBVZeroBubble", true}};
  for (const Case& one : cases) {
    ParallelConfig config = kPipeline;
    config.schedule = one.schedule;
    config.vpp = one.vpp;
    SCOPED_TRACE(one.name);
    const std::string text = arguments_of(llama(), config);
    EXPECT_THAT(text, HasSubstr("pipeline_parallel_schedule " + one.name + "\n"));
    EXPECT_EQ(text.find(by_file) != std::string::npos, one.has_file);
    const Plan plan = plan_of(llama(), config);
    EXPECT_EQ(content_of(torchtitan_export(plan), "schedule.csv").empty(), !one.has_file);
    EXPECT_EQ(content_of(torchtitan_toml_export(plan), "schedule.csv").empty(), !one.has_file);
  }
}

// torch's own 1F1B refuses fewer microbatches than stages; as a file it runs.
TEST(Torchtitan, FewMicrobatchesAreAFile) {
  const ParallelConfig config = {.pp = 8, .dp = 16, .zero_stage = 3};
  EXPECT_THAT(arguments_of(llama(), config), HasSubstr("schedule_csv schedule.csv"));
}

TEST(Torchtitan, KeysAreThoseOfTheRelease) {
  const auto known = [](const std::string& file) {
    std::ifstream in(PTDP_SOURCE_DIR "/tests/golden/frameworks/" + file);
    std::set<std::string> names;
    for (std::string line; std::getline(in, line);) {
      names.insert(line);
    }
    return names;
  };
  const std::set<std::string> names = known("torchtitan_0.3.0.txt");
  const std::set<std::string> old_names = known("torchtitan_0.2.2.txt");
  ParallelConfig uneven = kPipeline;
  uneven.schedule = ScheduleKind::kZbH1;
  uneven.layers_per_stage = {17, 15};
  const Scenario experts =
      shipped_scenario("qwen3-30b-a3b", "dgx-h100", "megatron-bridge-2025", 64);
  for (const Plan& plan : {plan_of(llama(), kPipeline), plan_of(llama(), uneven),
                           plan_of(experts, {.tp = 2, .dp = 8, .cp = 2, .ep = 8, .etp = 2})}) {
    for (const TorchtitanSetting& setting : torchtitan_settings(plan, TorchtitanRelease::k030)) {
      EXPECT_THAT(names, Contains(setting.key));
    }
    for (const TorchtitanSetting& setting : torchtitan_settings(plan, TorchtitanRelease::k022)) {
      EXPECT_THAT(old_names, Contains(setting.key));
    }
  }
}

TEST(Torchtitan, RefusesConfigurationsByName) {
  const auto with = [](auto&& change) {
    ParallelConfig config = kShards;
    change(config);
    return config;
  };
  const auto zero_1 = with([](ParallelConfig& config) { config.zero_stage = 1; });
  const auto ring = with([](ParallelConfig& config) { config.cp = 2; });
  const auto block = with([](ParallelConfig& config) {
    config.recompute = Recompute::kFull;
    config.recompute_num_layers = 2;
  });
  const auto core = with([](ParallelConfig& config) { config.recompute = Recompute::kSelective; });
  const auto host = with([](ParallelConfig& config) { config.offload = Offload::kOptimizer; });
  const auto plain_tp = with([](ParallelConfig& config) { config.tp = 2; });
  const auto dualpipe = with([](ParallelConfig& config) {
    config.pp = 2;
    config.dp = 4;
    config.schedule = ScheduleKind::kDualPipe;
  });
  EXPECT_THAT(refused(llama(), kShards), IsEmpty());
  EXPECT_THAT(refused_by_toml(llama(), kShards), IsEmpty());
  EXPECT_THAT(refused(llama(), zero_1), ElementsAre("zero_stage"));
  EXPECT_THAT(refused(llama(), ring), ElementsAre("context_parallel_kind"));
  EXPECT_THAT(toml_of(llama(), ring), HasSubstr("context_parallel_rotate_method = \"alltoall\""));
  EXPECT_THAT(refused(llama(), block), ElementsAre("recompute_num_layers"));
  EXPECT_THAT(refused_by_toml(llama(), block), ElementsAre("recompute_method"));
  EXPECT_THAT(refused(llama(), core), ElementsAre("recompute_modules"));
  EXPECT_THAT(refused(llama(), host), ElementsAre("offload"));
  EXPECT_THAT(refused(llama(), plain_tp), IsEmpty());
  EXPECT_THAT(refused_by_toml(llama(), plain_tp), ElementsAre("sequence_parallel"));
  EXPECT_THAT(refused(llama(), dualpipe), ElementsAre("schedule"));
  EXPECT_THAT(refused_by_toml(llama(), {.pp = 8, .zero_stage = 3}), ElementsAre("precision"));
}

TEST(Torchtitan, RefusesStacksByName) {
  Scenario scenario = llama();
  scenario.stack.precision = Precision::kFp16;
  EXPECT_THAT(refused(scenario, kShards), ElementsAre("precision"));
  scenario = llama();
  scenario.stack.deterministic = true;
  EXPECT_THAT(refused(scenario, kShards), ElementsAre("deterministic"));
  scenario = llama();
  scenario.stack = with_fp8(scenario.stack, "fp8");
  EXPECT_THAT(refused(scenario, kShards), ElementsAre("precision"));
  EXPECT_THAT(refused_by_toml(scenario, kShards), IsEmpty());
  scenario.stack = with_precision(scenario.stack, "fp8-rowwise");
  EXPECT_THAT(refused_by_toml(scenario, kShards), IsEmpty());
  EXPECT_THAT(toml_of(scenario, kShards), HasSubstr("recipe_name = \"rowwise\"\n"));
  scenario.stack = find_stack("megatron-core-2025");
  scenario.stack = with_precision(scenario.stack, "nvfp4");
  EXPECT_THAT(refused_by_toml(scenario, kShards), Contains("precision"));
  scenario.stack = with_precision(find_stack("torchtitan-2024"), "tf32");
  EXPECT_THAT(refused(scenario, kShards), Contains("precision"));
  scenario = llama();
  scenario.stack.tp_comm_overlap = TpCommOverlap::kUserBuffers;
  EXPECT_THAT(refused(scenario, kPipeline), ElementsAre("tp_comm_overlap"));
  scenario = llama();
  scenario.stack.data_parallel_overlap = DataParallelOverlap::kNever;
  EXPECT_THAT(refused(scenario, kShards), ElementsAre("data_parallel_overlap"));
  scenario = llama();
  scenario.stack.cuda_graphs = CudaGraphs::kStep;
  EXPECT_THAT(arguments_of(scenario, kShards), Not(HasSubstr("disable_cuda_graphs")));
  EXPECT_THAT(refused(scenario, kPipeline), ElementsAre("cuda_graphs"));
}

TEST(Torchtitan, RefusesModelsByName) {
  const auto model = [](const std::string& name) {
    return shipped_scenario(name, "dgx-h100", "torchtitan-2024", 64);
  };
  EXPECT_THAT(refused(model("mistral-7b"), kShards), ElementsAre("window_size"));
  EXPECT_THAT(refused_by_toml(model("mistral-7b"), kShards), ElementsAre("model"));
  EXPECT_THAT(refused(model("mixtral-8x7b"), kShards), ElementsAre("num_experts"));
  EXPECT_THAT(refused(model("7.5B"), kShards),
              ElementsAre("position_embedding", "normalization", "gated_linear_unit",
                          "add_bias_linear, or biases of some layers", "dropout"));
  EXPECT_THAT(refused_by_toml(model("qwen3-8b"), kPipeline), ElementsAre("pp"));
  EXPECT_THAT(refused(model("deepseek-v3"), {.pp = 2, .dp = 4, .zero_stage = 3}),
              ElementsAre("mtp_num_layers"));
}

// Sizes of torchtitan 0.2.2's flavors, as its models are published.
TEST(Torchtitan, PublishedModelsAreFlavors) {
  const auto flavor = [](const std::string& name) {
    const Scenario scenario = shipped_scenario(name, "dgx-h100", "torchtitan-2024", 64);
    const std::optional<TorchtitanFlavor> found = torchtitan_flavor(scenario.job.model);
    return found ? std::string(found->module) + " " + std::string(found->name) : "";
  };
  EXPECT_EQ(flavor("llama-3-8b"), "llama3 8B");
  EXPECT_EQ(flavor("llama-3-70b"), "llama3 70B");
  EXPECT_EQ(flavor("llama-3.1-405b"), "llama3 405B");
  EXPECT_EQ(flavor("qwen3-8b"), "qwen3 8B");
  EXPECT_EQ(flavor("qwen3-32b"), "qwen3 32B");
  EXPECT_EQ(flavor("qwen3-30b-a3b"), "qwen3 30B-A3B");
  EXPECT_EQ(flavor("qwen3-235b-a22b"), "qwen3 235B-A22B");
  EXPECT_EQ(flavor("llama-2-7b"), "");
  EXPECT_EQ(flavor("mixtral-8x7b"), "");
}

}  // namespace
}  // namespace ptdp
