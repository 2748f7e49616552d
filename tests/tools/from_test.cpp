// Tests of `ptdp-plan --from`: it reads back what `ptdp-plan export --to megatron` writes.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

using nlohmann::json;
using testing::HasSubstr;

TEST(From, UndoesTheExport) {
  const TemporaryDirectory directory;
  const std::string plan = (directory.path() / "plan.json").string();
  const std::string files = (directory.path() / "files").string();
  for (const std::vector<std::string>& flags : std::vector<std::vector<std::string>>{
           {"--gpus", "64", "--model", "7.5B", "--pp", "4", "--vpp", "3"},
           {"--gpus", "16", "--model", "llama-3-8b", "--cp", "2", "--zero-stage", "1"},
           {"--gpus", "64", "--model", "mixtral-8x7b", "--tp", "2", "--ep", "4"},
           {"--gpus", "256", "--model", "llama-3-70b", "--pp", "8", "--recompute", "full"},
           {"--gpus", "64", "--model", "18B", "--recompute", "full", "--recompute-num-layers", "1"},
           {"--gpus", "64", "--model", "llama-3-8b", "--precision", "fp8"},
           {"--gpus", "1024", "--model", "gpt3-175b", "--pp", "8", "--tp", "8"},
           {"--gpus", "16", "--model", "mistral-7b", "--rank-order", "tp-cp-ep-pp-dp", "--pp", "2"},
           {"--gpus", "32", "--model", "qwen3-30b-a3b", "--ep", "8", "--zero-stage", "1"}}) {
    std::vector<std::string> searched = flags;
    searched.insert(searched.end(), {"--cluster", "dgx-h100", "-o", plan});
    ASSERT_TRUE(succeeds(run_plan(searched))) << searched[3];
    ASSERT_TRUE(succeeds(run_plan({"export", plan, "--to", "megatron", "-o", files}))) << flags[3];
    const json written = json::parse(content_of(plan));
    for (const char* name : {"launch.sh", "arguments.txt"}) {
      const ProgramRun run =
          run_plan({"--from", files + "/" + name, "--gpus", flags[1], "--cluster", "dgx-h100",
                    "--time-limit", "1", "--format", "json"});
      ASSERT_TRUE(succeeds(run)) << flags[3] << name;
      json read = json::parse(run.output);
      EXPECT_EQ(read["config"], written["config"]) << flags[3] << name;
      read["inputs"]["model"].erase("name");
      read["inputs"]["model"].erase("parameters");
      EXPECT_EQ(read["inputs"]["model"], written["inputs"]["model"]) << flags[3] << name;
      EXPECT_EQ(read["inputs"]["global_batch_size"], written["inputs"]["global_batch_size"]);
      EXPECT_EQ(read["unknown_flags"], json::array()) << flags[3];
    }
  }
}

TEST(From, CostsAScriptAndTakesAnotherConfiguration) {
  const PlanFile files("");
  const std::string script = files.file(
      "train.sh",
      "#!/bin/bash\n#SBATCH --nodes=2\nGPUS_PER_NODE=${GPUS:-8}\n"
      "MODEL_ARGS=(\n  --num-layers 24\n  --hidden-size 2048 # wide\n  --num-attention-heads 16\n"
      "  --seq-length 2048\n  --vocab-size 50257\n)\n"
      "torchrun --nnodes=2 --nproc_per_node=$GPUS_PER_NODE pretrain_gpt.py ${MODEL_ARGS[@]} \\\n"
      "  --tensor-model-parallel-size 2 --micro-batch-size 4 --global-batch-size 64 --bf16 \\\n"
      "  --my-own-flag $EXTRA --lr 1e-4\n");
  const ProgramRun run = run_plan({"--from", script, "--cluster", "dgx-h100"});
  EXPECT_EQ(run.errors, "");
  EXPECT_THAT(run.output, HasSubstr("tp=2 pp=1 dp=8 b=4 1f1b recompute=none"));
  EXPECT_THAT(run.output, HasSubstr("Flags not known\n  --my-own-flag\n"));
  EXPECT_THAT(run.output, HasSubstr("dp 8: 16 GPUs over tp*pp*cp, 2"));
  const std::string plan = files.in("best.json");
  EXPECT_TRUE(succeeds(run_plan(
      {"--from", script, "--cluster", "dgx-h100", "--config", "tp=1,recompute=full", "-o", plan})));
  EXPECT_TRUE(succeeds(run_plan({"show", plan})));
}

TEST(From, RefusesFilesThatDoNotSayEnough) {
  const PlanFile files("");
  EXPECT_TRUE(is_refused(run_plan({"--from", files.file("a.sh", "echo hello\n"), "--gpus", "8"}),
                         {"a.sh", "no command"}));
  const std::string partial =
      files.file("b.txt", "--num-layers 2 --hidden-size 64\n--micro-batch-size 1\n");
  EXPECT_TRUE(is_refused(run_plan({"--from", partial}), {"b.txt", "--gpus"}));
  EXPECT_TRUE(is_refused(run_plan({"--from", partial, "--gpus", "8"}),
                         {"b.txt", "--vocab-size", "--model"}));
  EXPECT_TRUE(is_refused(run_plan({"--from", "/nowhere/x.sh"}), {"/nowhere/x.sh"}));
}

// What a search keeps to is what the export takes.
TEST(Exportable, FindsPlansThatAreExported) {
  const TemporaryDirectory directory;
  const std::string plan = (directory.path() / "plan.json").string();
  const std::vector<std::string> search = {"--gpus",    "8",        "--model", "llama-3-8b",
                                           "--cluster", "dgx-h100", "--stack", "torchtitan-2024",
                                           "-o",        plan};
  ASSERT_TRUE(succeeds(run_plan(search)));
  const std::string files = (directory.path() / "files").string();
  EXPECT_FALSE(succeeds(run_plan({"export", plan, "--to", "megatron", "-o", files})));
  std::vector<std::string> kept = search;
  kept.insert(kept.end(), {"--exportable", "megatron"});
  ASSERT_TRUE(succeeds(run_plan(kept)));
  EXPECT_TRUE(succeeds(run_plan({"export", plan, "--to", "megatron", "-o", files})));
}

}  // namespace
}  // namespace ptdp
