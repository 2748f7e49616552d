// Tests of reading ds_config.json and Megatron-DeepSpeed's arguments. Expectations follow from
// DeepSpeed's runtime/config.py and zero/config.py, by hand.
#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/import/reader.h"
#include "tests/planner/export/exports.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

ImportedRun json_run(const std::string& inside, std::optional<std::int64_t> gpus = 16) {
  return read_run("{" + inside + "}", "ds_config.json", gpus);
}

template <class Read>
std::string deepspeed_refusal_of(const Read& read) {
  try {
    return to_string(read().config);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(DeepspeedJson, DerivesTheThirdOfThreeSizes) {
  // 16 GPUs: 64 sequences are 2 microbatches of 2 on each.
  for (const char* sizes :
       {R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 2)",
        R"("train_batch_size": 64, "gradient_accumulation_steps": 2)",
        R"("train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": 2)",
        R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
           "gradient_accumulation_steps": "auto")"}) {
    const ImportedRun run = json_run(sizes);
    EXPECT_EQ(run.config, (ParallelConfig{.dp = 16, .micro_batch_size = 2})) << sizes;
    EXPECT_EQ(run.global_batch_size, 64) << sizes;
    EXPECT_EQ(run.precision, "fp32");
    EXPECT_FALSE(run.model);
    EXPECT_EQ(run.missing, "a model's shape");
  }
  const ImportedRun alone = json_run(R"("train_micro_batch_size_per_gpu": 4)");
  EXPECT_EQ(alone.global_batch_size, 64);
  EXPECT_EQ(json_run(R"("train_batch_size": 64)").config.micro_batch_size, 4);
}

TEST(DeepspeedJson, SaysTheGpusIfItSaysAllSizes) {
  const ImportedRun run = json_run(
      R"("train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
         "gradient_accumulation_steps": 4, "tensor_parallel": {"autotp_size": 4})",
      std::nullopt);
  EXPECT_EQ(run.gpus, 32);
  EXPECT_EQ(run.config.dp, 8);
  EXPECT_EQ(run.config.tp, 4);
  EXPECT_THAT(
      deepspeed_refusal_of([] { return json_run(R"("train_batch_size": 64)", std::nullopt); }),
      HasSubstr("expected --gpus too"));
}

TEST(DeepspeedJson, ReadsZeroAndItsOffloading) {
  const ImportedRun run = json_run(R"("train_batch_size": 64, "bf16": {"enabled": true},
    "sequence_parallel_size": 2, "my_key": 1, "optimizer": {"params": {"lr": "auto"}},
    "zero_optimization": {"stage": 3, "offload_optimizer": {"device": "cpu"},
      "offload_param": {"device": "none"}, "mics_shard_size": 8, "prefetch_bucket_size": 5e7})");
  EXPECT_EQ(run.config, (ParallelConfig{.dp = 8,
                                        .cp = 2,
                                        .micro_batch_size = 8,
                                        .zero_stage = 3,
                                        .dp_replicate = 2,
                                        .offload = Offload::kOptimizer}));
  EXPECT_EQ(run.precision, "bf16");
  EXPECT_EQ(run.stack.reductions, true);
  EXPECT_EQ(run.stack.context, ContextParallel::kAllToAll);
  EXPECT_THAT(run.reading.unknown_flags, ElementsAre("my_key"));
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("zero_optimization.prefetch_bucket_size")));
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("without effect here: optimizer.params.lr")));
}

TEST(DeepspeedJson, KnowsFormerSpellings) {
  const std::string batch = R"("train_batch_size": 16, "fp16": {"enabled": true}, )";
  const ImportedRun old = json_run(batch + R"("zero_optimization": {"stage": 2,
      "cpu_offload": true, "overlap_comm": false})");
  EXPECT_EQ(old.config.offload, Offload::kOptimizer);
  EXPECT_EQ(old.precision, "fp16");
  EXPECT_EQ(old.stack.reductions, false);
  EXPECT_EQ(json_run(batch + R"("zero_optimization": true)").config.zero_stage, 1);
  EXPECT_EQ(json_run(batch + R"("zero_optimization": false)").config.zero_stage, 0);
  EXPECT_EQ(json_run(R"("train_batch_size": 16, "bfloat16": {"enabled": true})").precision, "bf16");
  EXPECT_THAT(json_run(R"("train_batch_size": 16, "bf16": {"enabled": true})").reading.notes,
              Contains(HasSubstr("stage 0 with bf16: nothing is sharded")));
}

TEST(DeepspeedJson, RefusesWhatATrainerFillsInAndWhatIsNotCosted) {
  struct JsonRow {
    const char* settings;
    const char* message;
  };
  for (const JsonRow& row :
       {JsonRow{R"("train_batch_size": "auto", "train_micro_batch_size_per_gpu": "auto")",
                "train_micro_batch_size_per_gpu: expected its value, got \"auto\""},
        JsonRow{R"("train_micro_batch_size_per_gpu": 2, "gradient_accumulation_steps": "auto")",
                "gradient_accumulation_steps: expected its value"},
        JsonRow{R"("gradient_accumulation_steps": 2, "zero_optimization": {"stage": 1})",
                "train_micro_batch_size_per_gpu: is missing"},
        JsonRow{
            R"("train_batch_size": 16, "bf16": {"enabled": "auto"}, "fp16": {"enabled": false})",
            "bf16.enabled: expected its value"},
        JsonRow{R"("train_batch_size": 16, "bf16": {"enabled": true}, "fp16": {"enabled": true})",
                "expected false beside fp16.enabled"},
        JsonRow{R"("train_batch_size": 16, "zero_optimization": {"stage": 4})", "expected 0 to 3"},
        JsonRow{R"("train_batch_size": 16, "zero_optimization": {"stage": 3,
            "offload_param": {"device": "cpu"}})",
                "weights on the host are not costed"},
        JsonRow{R"("train_batch_size": 16, "zero_optimization": {"stage": 2,
            "offload_optimizer": {"device": "nvme"}})",
                "states on NVMe are not costed"},
        JsonRow{
            R"("train_batch_size": 16, "zero_optimization": {"stage": 3, "mics_shard_size": 5})",
            "expected a divisor of the 16 ranks"},
        JsonRow{R"("train_batch_size": 24)", "24 is no product of 1 sequences, 1 step and dp 16"},
        JsonRow{R"("train_batch_size": 16, "tensor_parallel": {"autotp_size": 3})",
                "16 GPUs are no multiple of 3"},
        JsonRow{R"("train_batch_size": 16, "elasticity": {"enabled": true})", "elasticity.enabled"},
        JsonRow{R"("train_micro_batch_size_per_gpu": 2147483647,
            "gradient_accumulation_steps": 2147483647)",
                "expected at most 2147483647 sequences of a rank"},
        JsonRow{R"("train_batch_size": 16, "sequence_parallel_size": 2147483647,
            "tensor_parallel": {"autotp_size": 2147483647})",
                "expected fewer tensor and sequence parallel ranks"},
        JsonRow{R"("train_batch_size": 1.5)", "expected a whole number"}}) {
    EXPECT_THAT(deepspeed_refusal_of([&] { return json_run(row.settings); }),
                HasSubstr(row.message))
        << row.settings;
  }
}

constexpr const char* kMegatronDeepspeed =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 2048 "
    "--vocab-size 50257 --micro-batch-size 2 --global-batch-size 64 --bf16 "
    "--deepspeed --deepspeed_config x.json ";

ImportedRun script_run(const std::string& more) {
  return read_run(kMegatronDeepspeed + more, "launch.sh", 32);
}

TEST(MegatronDeepspeed, ReadsItsOwnFlags) {
  const ImportedRun run = script_run(
      "--zero-stage 3 --no-pipeline-parallel --ds-sequence-parallel-size 4 --cpu-optimizer "
      "--num-key-value-heads 4 --normalization rmsnorm --deepspeed-activation-checkpointing "
      "--checkpoint-activations");
  EXPECT_EQ(run.framework, "Megatron-DeepSpeed");
  EXPECT_EQ(run.config, (ParallelConfig{.dp = 8,
                                        .cp = 4,
                                        .micro_batch_size = 2,
                                        .recompute = Recompute::kFull,
                                        .zero_stage = 3,
                                        .offload = Offload::kOptimizer}));
  EXPECT_EQ(run.model->num_query_groups, 4);
  EXPECT_EQ(run.model->normalization, Normalization::kRmsNorm);
  EXPECT_EQ(run.stack.context, ContextParallel::kAllToAll);
  EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("the file of --deepspeed_config is not read")));
}

// Source: DeepSpeed 0.19.8, engine.py, _do_optimizer_sanity_check(), and bf16_optimizer.py.
TEST(MegatronDeepspeed, ShardsStatesOfBf16UnderAPipeline) {
  EXPECT_EQ(script_run("--zero-stage 0 --pipeline-model-parallel-size 4").config.zero_stage, 1);
  EXPECT_EQ(script_run("--zero-stage 0 --no-pipeline-parallel").config.zero_stage, 0);
}

TEST(MegatronDeepspeed, RefusesByName) {
  for (const auto& [more, message] :
       {std::pair("", "--zero-stage: is missing, and the file"),
        std::pair("--zero-stage 5", "--zero-stage: expected 0 to 3"),
        std::pair("--zero-stage 2 --pipeline-model-parallel-size 2", "0 or 1 with a pipeline"),
        std::pair("--zero-stage 3 --remote-device cpu", "weights on the host"),
        std::pair("--zero-stage 1 --num-experts 64", "experts of Megatron-DeepSpeed")}) {
    EXPECT_THAT(deepspeed_refusal_of([&text = more] { return script_run(text); }),
                HasSubstr(message));
  }
}

TEST(DeepspeedRoundTrip, UndoesTheScript) {
  for (const ParallelConfig& config : std::vector<ParallelConfig>{
           {.tp = 2, .dp = 8, .recompute = Recompute::kFull, .zero_stage = 3},
           {.tp = 2,
           .pp = 4,
           .dp = 4,
           .micro_batch_size = 2,
           .recompute = Recompute::kFull,
           .recompute_method = RecomputeMethod::kUniform,
           .recompute_num_layers = 2,
           .sequence_parallel = true,
           .zero_stage = 1},
           {.dp = 8, .micro_batch_size = 2, .zero_stage = 2}}) {
    const Plan plan = llama_plan("megatron-core-2025", config);
    ASSERT_THAT(fields_of(deepspeed_refusals(plan)), IsEmpty()) << to_string(config);
    const Export exported = deepspeed_export(plan);
    const ImportedRun run = read_run(content_of(exported, "launch.sh"), "launch.sh", std::nullopt);
    EXPECT_EQ(run.config, config) << to_string(run.config);
    EXPECT_EQ(run.global_batch_size, 128);
    EXPECT_EQ(run.gpus, config.world_size());
    EXPECT_EQ(run.precision, "bf16");
    EXPECT_EQ(run.model, plan.scenario.job.model);
    EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
  }
}

TEST(DeepspeedRoundTrip, UndoesTheJson) {
  for (const int stage : {1, 2, 3}) {
    const ParallelConfig config = {.dp = 16, .micro_batch_size = 2, .zero_stage = stage};
    const Plan plan = llama_plan("megatron-core-2025", config);
    const ImportedRun run = read_run(content_of(deepspeed_export(plan), "ds_config.json"),
                                     "ds_config.json", std::nullopt);
    EXPECT_EQ(run.config, config) << to_string(run.config);
    EXPECT_EQ(run.global_batch_size, 128);
    EXPECT_EQ(run.gpus, 16);
    EXPECT_EQ(run.precision, "bf16");
    EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
  }
}

}  // namespace
}  // namespace ptdp
