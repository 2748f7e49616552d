// Tests of reading runs of torchtitan. Expectations follow from its job_config.py, configs.py and
// pipeline_parallel.py, by hand.
#include "planner/import/torchtitan/torchtitan.h"

#include <gmock/gmock.h>

#include "cost_model/error.h"
#include "planner/export/torchtitan/torchtitan_model.h"
#include "planner/import/reader.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kModelSection = "[model]\nname = \"llama3\"\nflavor = \"8B\"\n";

ImportedRun toml_run(const std::string& more, std::optional<std::int64_t> gpus = 64) {
  return read_run(kModelSection + more, "train.toml", gpus);
}

ImportedRun command_run(const std::string& more, std::optional<std::int64_t> gpus = 64) {
  return read_run("--module llama3 --config llama3_8b " + more, "arguments.txt", gpus);
}

template <class Read>
std::string titan_refusal(const Read& read) {
  try {
    return to_string(read().config);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Torchtitan022, HasItsDefaults) {
  const ImportedRun run = toml_run("");
  EXPECT_EQ(run.config, (ParallelConfig{.dp = 64,
                                        .micro_batch_size = 8,
                                        .recompute = Recompute::kFull,
                                        .recompute_method = RecomputeMethod::kEvery,
                                        .recompute_num_layers = 2,
                                        .zero_stage = 3}));
  EXPECT_EQ(run.global_batch_size, 512);
  EXPECT_EQ(run.precision, "bf16");
  ASSERT_TRUE(run.model);
  EXPECT_EQ(run.model->num_layers, 32);
  EXPECT_EQ(run.model->seq_length, 2048);
  EXPECT_THAT(run.reading.notes, Contains("shard degree 64: 64 GPUs over the other degrees, 1"));
}

TEST(Torchtitan022, ReadsDegreesBatchAndRecomputation) {
  const ImportedRun run = toml_run(R"(
[training]
local_batch_size = 16
global_batch_size = 256
seq_len = 8192
[parallelism]
tensor_parallel_degree = 2
pipeline_parallel_degree = 4
pipeline_parallel_schedule = "interleaved1f1b"
pipeline_parallel_microbatch_size = 2
context_parallel_degree = 2
context_parallel_rotate_method = "alltoall"
data_parallel_replicate_degree = 2
fsdp_reshard_after_forward = "never"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "op"
)");
  // 32 layers and 2 for both ends on 8 stages: 5, 5, 4, ..., of which the ends take one each.
  EXPECT_EQ(run.config, (ParallelConfig{.tp = 2,
                                        .pp = 4,
                                        .dp = 4,
                                        .cp = 2,
                                        .vpp = 2,
                                        .micro_batch_size = 2,
                                        .schedule = ScheduleKind::kInterleaved,
                                        .recompute = Recompute::kSelective,
                                        .recompute_modules = {RecomputeModule::kEverySecondProduct},
                                        .sequence_parallel = true,
                                        .zero_stage = 3,
                                        .dp_replicate = 2,
                                        .reshard_after_forward = false,
                                        .layers_per_stage = {4, 5, 4, 4, 4, 4, 4, 3}}));
  EXPECT_EQ(run.global_batch_size, 256);
  EXPECT_EQ(run.model->seq_length, 8192);
  EXPECT_EQ(run.stack.context, ContextParallel::kRing);
  EXPECT_THAT(run.reading.notes, Contains(HasSubstr("fills and drains 4 times")));
  EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
}

TEST(Torchtitan022, TakesTheDegreesForTheNumberOfGpus) {
  const std::string degrees =
      "[parallelism]\ndata_parallel_shard_degree = 4\ntensor_parallel_degree = 8\n";
  EXPECT_EQ(toml_run(degrees, std::nullopt).gpus, 32);
  EXPECT_THAT(titan_refusal([&] { return toml_run(degrees, 64); }),
              HasSubstr("train.toml: 64 GPUs are no product of the degrees, 32"));
  EXPECT_THAT(titan_refusal([&] { return toml_run("", std::nullopt); }),
              HasSubstr("expected --gpus too"));
}

TEST(Torchtitan022, ReadsPrecision) {
  EXPECT_EQ(toml_run("[training]\nmixed_precision_param = \"float32\"").precision, "fp32");
  const ImportedRun short_weights = toml_run("[training]\ndtype = \"bfloat16\"");
  EXPECT_EQ(short_weights.precision, "bf16");
  EXPECT_EQ(short_weights.stack.master_weights, false);
  // Weight, gradient and two moments in bf16: 8 bytes, where fp32 ones take 16.
  const StackSpec stack = with_changes({.gradient_bytes = 4.0}, short_weights.stack);
  EXPECT_EQ(stack.weight_bytes + stack.gradient_bytes + stack.optimizer_bytes, 8.0);
  const std::string alone = "[parallelism]\ntensor_parallel_degree = 8\n";
  EXPECT_EQ(toml_run(alone, 8).precision, "fp32");
  EXPECT_THAT(toml_run(alone, 8).reading.notes, Contains(HasSubstr("FSDP and its mixed")));
}

TEST(Torchtitan022, ReadsEightBits) {
  const auto converted = [](const std::string& more) {
    return read_run("[model]\nname = \"llama3\"\nflavor = \"8B\"\n" + more, "a.toml", 8).precision;
  };
  EXPECT_EQ(converted("converters = [\"quantize.linear.float8\"]"), "fp8-current");
  EXPECT_EQ(converted("converters = \"float8\""), "fp8-current");
  EXPECT_EQ(converted("converters = [\"quantize.linear.float8\"]\n"
                      "[quantize.linear.float8]\nrecipe_name = \"rowwise\""),
            "fp8-rowwise");
  EXPECT_EQ(converted("converters = [\"quantize.linear.mx\"]"), "fp8-mx");
  EXPECT_EQ(converted("[float8]\nenable_float8_linear = true"), "fp8-current");
  EXPECT_EQ(converted("[float8]\nenable_float8_linear = false"), "bf16");
}

TEST(Torchtitan022, CountsLayersOfListedModules) {
  const ImportedRun run = toml_run(R"([parallelism]
pipeline_parallel_degree = 2
module_fqns_per_model_part = [["tok_embeddings", "layers.0"], ["layers.1", "layers.2", "norm"]]
)");
  EXPECT_THAT(run.config.layers_per_stage, ElementsAre(1, 2));
  EXPECT_EQ(run.config.vpp, 1);
}

TEST(Torchtitan022, SplitsExpertsAsItsModelHasThem) {
  const auto run_with = [](const std::string& more) {
    return read_run(
               "[model]\nname = \"qwen3\"\nflavor = \"30B-A3B\"\n[parallelism]\n"
               "tensor_parallel_degree = 4\n" +
                   more,
               "a.toml", 64)
        .config;
  };
  EXPECT_EQ(run_with("").etp, 4);
  EXPECT_EQ(run_with("expert_parallel_degree = 8").ep, 8);
  EXPECT_EQ(run_with("expert_parallel_degree = 8").etp, 1);
  EXPECT_EQ(run_with("expert_parallel_degree = 8\nexpert_tensor_parallel_degree = 4").etp, 4);
  EXPECT_EQ(toml_run("[parallelism]\nexpert_parallel_degree = 8").config.ep, 1);
}

// Source: torchtitan of October 2024, train_configs and config_manager.py.
TEST(Torchtitan2024, HasOtherNames) {
  const ImportedRun run = toml_run(R"(
[training]
batch_size = 8
warmup_steps = 200
data_parallel_shard_degree = -1
tensor_parallel_degree = 2
compile = true
[experimental]
pipeline_parallel_degree = 4
pipeline_parallel_split_points = ["layers.6", "layers.14", "layers.22"]
context_parallel_degree = 2
enable_async_tensor_parallel = true
[activation_checkpoint]
mode = "full"
)");
  EXPECT_EQ(run.config, (ParallelConfig{.tp = 2,
                                        .pp = 4,
                                        .dp = 4,
                                        .cp = 2,
                                        .micro_batch_size = 2,
                                        .recompute = Recompute::kFull,
                                        .sequence_parallel = true,
                                        .zero_stage = 3,
                                        .layers_per_stage = {6, 8, 8, 10}}));
  EXPECT_EQ(run.global_batch_size, 32);
  EXPECT_EQ(run.stack.within_products, true);
  EXPECT_THAT(run.reading.notes,
              Contains("4 microbatches: as many as stages, the default of 2024"));
  EXPECT_THAT(run.reading.unknown_flags, IsEmpty());
}

TEST(Torchtitan2024, SplitsWithoutCountingTheEnds) {
  const ImportedRun run = read_run(
      "[model]\nname = \"llama3\"\nflavor = \"405B\"\n[training]\nbatch_size = 16\n"
      "[experimental]\npipeline_parallel_degree = 8\npipeline_parallel_microbatches = 16\n",
      "a.toml", 64);
  // 126 layers on 8 stages are 15 each; the 6 left go to the stages between the ends.
  EXPECT_THAT(run.config.layers_per_stage, ElementsAre(15, 16, 16, 16, 16, 16, 16, 15));
  EXPECT_EQ(run.config.micro_batch_size, 1);
}

TEST(Torchtitan030, TakesWhatItsConfigurationSets) {
  const ImportedRun run = command_run("");
  EXPECT_EQ(run.config, (ParallelConfig{.dp = 64,
                                        .recompute = Recompute::kSelective,
                                        .recompute_modules = {RecomputeModule::kEverySecondProduct},
                                        .zero_stage = 3}));
  EXPECT_EQ(run.model->seq_length, 8192);
  const ImportedRun large = read_run("--module=llama3 --config=llama3_405b", "a.sh", 64);
  EXPECT_EQ(large.config.tp, 8);
  EXPECT_EQ(large.precision, "fp8-current");
  EXPECT_EQ(repeats(large.config.recompute), Repeats::kLayer);
}

TEST(Torchtitan030, LetsFlagsCountMore) {
  const ImportedRun run = read_run(R"(#!/bin/bash
TP=${TP:-8}
torchrun --nnodes 2 --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_70b \
  --training.local-batch-size=4 --parallelism.tensor_parallel_degree $TP \
  --parallelism.no-enable_sequence_parallel --optimizer.lr 1e-4 --my.own 1 \
  activation-checkpoint:none
)",
                                   "launch.sh", std::nullopt);
  EXPECT_EQ(run.config, (ParallelConfig{.tp = 8, .dp = 2, .micro_batch_size = 4, .zero_stage = 3}));
  EXPECT_EQ(run.gpus, 16);
  EXPECT_THAT(run.reading.unknown_flags, ElementsAre("my.own"));
}

TEST(Torchtitan030, AsksForTheModelOfAnUnknownConfiguration) {
  const std::string command =
      "--module mine --config big --training.local_batch_size 2 --training.seq_len 4096 "
      "--parallelism.pipeline_parallel_degree 2 --parallelism.pipeline_parallel_layers_per_stage 4 "
      "--parallelism.pipeline_parallel_schedule Interleaved1F1B "
      "--parallelism.pipeline_parallel_first_stage_less_layers 0 "
      "--parallelism.pipeline_parallel_last_stage_less_layers 0";
  const ImportedRun alone = read_run(command, "a.sh", 8);
  EXPECT_FALSE(alone.model);
  EXPECT_EQ(alone.missing, "the flavor of a model");
  EXPECT_EQ(alone.seq_length, 4096);
  EXPECT_THAT(alone.reading.notes, Contains(HasSubstr("--config big of --module mine is not")));
  const TransformerConfig model = *torchtitan_flavor_model("llama3", "8B");
  EXPECT_EQ(read_run(command, "a.sh", 8, model).config.vpp, 4);
}

TEST(StackChanges, KeepTheStacksWayOfRunningWithinProducts) {
  const StackChanges on = {.within_products = true};
  EXPECT_EQ(with_changes({.tp_comm_overlap = TpCommOverlap::kSymmetricMemory}, on).tp_comm_overlap,
            TpCommOverlap::kSymmetricMemory);
  EXPECT_EQ(with_changes({}, on).tp_comm_overlap, TpCommOverlap::kUserBuffers);
  EXPECT_EQ(
      with_changes({.tp_comm_overlap = TpCommOverlap::kSymmetricMemory}, {.within_products = false})
          .tp_comm_overlap,
      TpCommOverlap::kNone);
}

TEST(TorchtitanFlavors, HaveTheShapesThatTheExporterKnows) {
  for (const auto& [module, flavor] :
       {std::pair("llama3", "8B"), std::pair("llama3", "70B"), std::pair("llama3", "405B"),
        std::pair("qwen3", "8B"), std::pair("qwen3", "32B"), std::pair("qwen3", "30B-A3B"),
        std::pair("qwen3", "235B-A22B")}) {
    const auto model = torchtitan_flavor_model(module, flavor);
    ASSERT_TRUE(model) << flavor;
    const auto found = torchtitan_flavor(*model);
    ASSERT_TRUE(found) << flavor;
    EXPECT_EQ(found->module, module);
    EXPECT_EQ(found->name, flavor);
  }
  EXPECT_TRUE(torchtitan_flavor_model("llama3", "8B_flex"));
  EXPECT_FALSE(torchtitan_flavor_model("llama3", "debugmodel"));
  EXPECT_EQ(torchtitan_flavor_model("deepseek_v3", "671B")->mtp_num_layers, 0);
}

TEST(Torchtitan, RefusesWhatCannotBeRead) {
  struct TitanRow {
    const char* settings;
    const char* message;
  };
  for (const TitanRow& row :
       {TitanRow{
            "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_schedule_csv = \"a\"",
            "pipeline_parallel_schedule_csv: orders of a file are not read"},
        TitanRow{"[parallelism]\npipeline_parallel_degree = 2\n"
                 "pipeline_parallel_schedule = \"InterleavedZeroBubble\"",
                 "expected 1F1B, GPipe"},
        TitanRow{
            "[parallelism]\npipeline_parallel_degree = 2\npipeline_parallel_layers_per_stage = 1",
            "expected one stage on each of 2 ranks, got 34 stages"},
        TitanRow{"[parallelism]\npipeline_parallel_degree = 64", "32 layers do not fill 64 stages"},
        TitanRow{"[parallelism]\npipeline_parallel_degree = 2147483647", "stages and layers"},
        TitanRow{"[parallelism]\ntensor_parallel_degree = 0", "expected a whole number from 1"},
        TitanRow{"[parallelism]\ndata_parallel_shard_degree = 0", "expected -1 or a number from 1"},
        TitanRow{"[parallelism]\ntensor_parallel_degree = 3", "64 GPUs are no multiple"},
        TitanRow{"[parallelism]\nfsdp_reshard_after_forward = \"yes\"", "expected default, always"},
        TitanRow{"[activation_checkpoint]\nmode = \"memory_budget\"", "the compiler chooses"},
        TitanRow{"[activation_checkpoint]\nselective_ac_option = \"x\"", "expected a whole number"},
        TitanRow{"[training]\ndtype = \"float16\"", "expected float32 or bfloat16"},
        TitanRow{"[training]\nglobal_batch_size = 100", "expected a multiple of local batch size"},
        TitanRow{"[training]\nlocal_batch_size = 3\n[parallelism]\npipeline_parallel_degree = 2\n"
                 "pipeline_parallel_microbatch_size = 2",
                 "3 sequences are no multiple of microbatches of 2"},
        TitanRow{"[training]\nbatch_size = 6\n[experimental]\npipeline_parallel_degree = 4",
                 "training.batch_size: 6 sequences are no multiple of 4 microbatches"},
        TitanRow{"[experimental]\npipeline_parallel_degree = 2\n"
                 "pipeline_parallel_split_points = [\"layers.40\"]",
                 "expected layers in the order of the model"}}) {
    EXPECT_THAT(titan_refusal([&] { return toml_run(row.settings); }), HasSubstr(row.message))
        << row.settings;
  }
}

TEST(Torchtitan, NamesTheFileThatAScriptRuns) {
  const auto refusal_of_script = [](const std::string& script) {
    return titan_refusal([&] { return read_run(script, "run.sh", 8); });
  };
  EXPECT_EQ(
      refusal_of_script("torchrun --nproc_per_node=8 -m torchtitan.train "
                        "--job.config_file a/b.toml --training.steps 5 --training.seq_len 64\n"),
      "run.sh: --job.config_file: the run is in \"a/b.toml\", which is not read from here; "
      "expected --from with that file, and there the script's training.seq_len = 64");
  EXPECT_THAT(refusal_of_script("./run_train.sh --parallelism.tensor_parallel_degree 8\n"),
              HasSubstr("run.sh: no --module and --config of torchtitan 0.3"));
  EXPECT_THAT(refusal_of_script("torchrun -m torchtitan.train --module x --config y\n"),
              HasSubstr("expected --training.local_batch_size too"));
  EXPECT_THAT(refusal_of_script("# torchtitan.train\necho\n"), HasSubstr("no command"));
}

}  // namespace
}  // namespace ptdp
