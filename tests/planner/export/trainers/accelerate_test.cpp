// Tests of exports for Accelerate.
#include <gmock/gmock.h>

#include "cost_model/inputs/huggingface/huggingface_config.h"
#include "cost_model/text/object_reader.h"
#include "planner/export/trainers/huggingface_model.h"
#include "tests/planner/export/exports.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

/// A configuration that Accelerate runs.
constexpr ParallelConfig kAccelerateRuns = {
    .tp = 2, .dp = 8, .recompute = Recompute::kFull, .zero_stage = 3};

std::vector<std::string> accelerate_refuses(void (*change)(Plan& plan)) {
  Plan plan = llama_plan("torchtitan-2024", kAccelerateRuns);
  change(plan);
  return fields_of(accelerate_refusals(plan));
}

TEST(AccelerateExport, RefusesRelativePositions) {
  EXPECT_THAT(accelerate_refuses([](Plan& plan) {
                plan.scenario.job.model.position_embedding = PositionEmbedding::kRelative;
              }),
              ElementsAre("position_embedding"));
}

TEST(AccelerateExport, WritesTheConfigurationByHand) {
  const Plan plan = llama_plan("torchtitan-2024", kAccelerateRuns);
  ASSERT_THAT(accelerate_refusals(plan), IsEmpty());
  const Export exported = accelerate_export(plan);
  EXPECT_EQ(content_of(exported, "accelerate.yaml"),
            "compute_environment: LOCAL_MACHINE\n"
            "debug: false\n"
            "distributed_type: FSDP\n"
            "main_training_function: main\n"
            "mixed_precision: bf16\n"
            "num_machines: 2\n"
            "num_processes: 16\n"
            "rdzv_backend: static\n"
            "same_network: true\n"
            "use_cpu: false\n"
            "fsdp_config:\n"
            "  fsdp_version: 2\n"
            "  fsdp_reshard_after_forward: true\n"
            "  fsdp_offload_params: false\n"
            "  fsdp_activation_checkpointing: true\n"
            "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
            "  fsdp_transformer_layer_cls_to_wrap: LlamaDecoderLayer\n"
            "  fsdp_cpu_ram_efficient_loading: false\n"
            "  fsdp_state_dict_type: SHARDED_STATE_DICT\n"
            "parallelism_config:\n"
            "  parallelism_config_dp_replicate_size: 1\n"
            "  parallelism_config_dp_shard_size: 8\n"
            "  parallelism_config_cp_size: 1\n"
            "  parallelism_config_tp_size: 2\n");
  EXPECT_EQ(content_of(exported, "batch.json"),
            "{\n"
            "  \"micro_batch_size\": 1,\n"
            "  \"gradient_accumulation_steps\": 16,\n"
            "  \"global_batch_size\": 128,\n"
            "  \"sequence_length\": 8192,\n"
            "  \"shards_gradients\": true,\n"
            "  \"steps\": 20\n"
            "}\n");
}

TEST(AccelerateExport, HasKeysOfTheFrameworkAlone) {
  const std::set<std::string> known = known_names("accelerate_1.15.0.txt");
  ASSERT_GT(known.size(), 100U);
  Plan plan = llama_plan("torchtitan-2024", kAccelerateRuns);
  plan.config.cp = 2;
  const Export exported = accelerate_export(plan);
  for (const std::string& path : yaml_paths(content_of(exported, "accelerate.yaml"))) {
    const std::size_t dot = path.find('.');
    EXPECT_TRUE(
        known.contains(dot == std::string::npos ? "yaml:" + path : "--" + path.substr(dot + 1)))
        << path;
  }
}

// torch's set_rotate_method("alltoall") passes blocks around; "allgather" gathers them.
TEST(AccelerateExport, NamesTheWayThatKeysTravel) {
  Plan plan = llama_plan("torchtitan-2024", {.dp = 8, .zero_stage = 3});
  plan.config.cp = 2;
  plan.scenario.stack.context_parallel_kind = ContextParallel::kRing;
  EXPECT_THAT(content_of(accelerate_export(plan), "accelerate.yaml"),
              HasSubstr("parallelism_config_cp_comm_strategy: alltoall\n"));
  plan.scenario.stack.context_parallel_kind = ContextParallel::kAllGather;
  EXPECT_THAT(content_of(accelerate_export(plan), "accelerate.yaml"),
              HasSubstr("parallelism_config_cp_comm_strategy: allgather\n"));
  plan.scenario.stack.context_parallel_kind = ContextParallel::kAllToAll;
  EXPECT_THAT(fields_of(accelerate_refusals(plan)), ElementsAre("cp"));
}

// The reader of config.json is another unit, written from the classes of transformers.
TEST(AccelerateExport, WritesModelsThatReadBack) {
  for (const std::string name : {"llama-3-8b", "mistral-7b", "qwen2.5-7b", "qwen3-8b",
                                 "llama-2-70b", "gpt2-124m", "gpt2-1.5b"}) {
    TransformerConfig model = find_model(name).config;
    ObjectReader reader = ObjectReader::from_text(huggingface_json(model), "model.json");
    TransformerConfig read = read_huggingface_config(reader);
    // A config.json says the longest sequence, of which the reader takes some, and no more.
    read.seq_length = model.seq_length;
    EXPECT_EQ(read, model) << name;
  }
}

TEST(AccelerateExport, RefusesWhatAccelerateDoesNotRun) {
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.pp = 2; }), ElementsAre("pp"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.ep = 2; }), ElementsAre("ep"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.scenario.stack.deterministic = true; }),
              ElementsAre("deterministic"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.vpp = 2; }), ElementsAre("vpp"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.zero_stage = 2; }),
              ElementsAre("zero_stage", "recompute"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) {
                p.config.zero_stage = 0;
                p.config.recompute = Recompute::kNone;
              }),
              ElementsAre("zero_stage"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.dp_replicate = 8; }), ElementsAre("dp"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.cp = 3; }), ElementsAre("cp"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.sequence_parallel = true; }),
              ElementsAre("sequence_parallel"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.recompute = Recompute::kSelective; }),
              ElementsAre("recompute"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.recompute_num_layers = 4; }),
              ElementsAre("recompute_num_layers"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.config.offload = Offload::kOptimizer; }),
              ElementsAre("offload"));
  EXPECT_THAT(accelerate_refuses([](Plan& p) { p.scenario.stack.precision = Precision::kFp64; }),
              ElementsAre("precision"));
  EXPECT_THAT(
      accelerate_refuses([](Plan& p) { p.scenario.job.model = find_model("mixtral-8x7b").config; }),
      ElementsAre("num_experts"));
  EXPECT_THAT(
      accelerate_refuses([](Plan& p) { p.scenario.job.model = find_model("gpt2-124m").config; }),
      ElementsAre("tp"));
}

TEST(AccelerateExport, CopiesModelsWithoutZero) {
  const Plan plan = llama_plan("torchtitan-2024", {.dp = 8});
  ASSERT_THAT(accelerate_refusals(plan), IsEmpty());
  const std::string yaml = content_of(accelerate_export(plan), "accelerate.yaml");
  EXPECT_THAT(yaml, HasSubstr("distributed_type: MULTI_GPU\n"));
  EXPECT_THAT(yaml, testing::Not(HasSubstr("parallelism_config")));
}

}  // namespace
}  // namespace ptdp
