// Tests of `ptdp-plan new-cluster`: from what a user has to a file that commands take.
#include <gmock/gmock.h>

#include "tests/support/commands.h"

namespace ptdp {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;

const char* const kAllReduceOfEight =
    "# Collective test starting: all_reduce_perf\n"
    "#  Rank  0 Pid  1 on node0 device  0 [0x07] H100\n"
    "#  Rank  1 Pid  1 on node0 device  1 [0x0a] H100\n"
    "1048576 262144 float sum -1 50.00 20.97 20.97 0\n"
    "16777216 4194304 float sum -1 100.00 167.77 167.77 0\n";

json cluster_of(const fs::path& file) {
  return json::parse(content_of(file));
}

TEST(NewCluster, IsWrittenAndPlannedFor) {
  const TemporaryDirectory directory;
  const fs::path bench = directory.file("a.txt", kAllReduceOfEight);
  const std::string mine = (directory.path() / "mine.json").string();
  const ProgramRun run = run_plan({"new-cluster", "--from", "dgx-h100", "--gpus-per-node", "4",
                                   "--nic", "4x400Gb", "--nccl-tests", bench.string(), "-o", mine});
  ASSERT_TRUE(succeeds(run)) << run.errors;
  EXPECT_THAT(run.output, AllOf(HasSubstr("4 GPUs a node, by --gpus-per-node"),
                                HasSubstr("all_reduce of 2 GPUs on 1 node: 2 sizes, 167.8 GB/s")));
  EXPECT_EQ(cluster_of(mine)["gpus_per_node"], 4);
  EXPECT_EQ(cluster_of(mine)["all_reduce_curves"][0]["points"][1]["time_us"], 100.0);
  EXPECT_TRUE(succeeds(run_plan({"--gpus", "8", "--model", "gpt2-1.5b", "--cluster", mine})));
}

// One command for each shipped GPU, and for one that is not.
TEST(NewCluster, IsMadeOfEveryShippedGpu) {
  const TemporaryDirectory directory;
  const std::string mine = (directory.path() / "mine.json").string();
  const ProgramRun list = run_plan({"list", "gpus", "--format", "json"});
  ASSERT_TRUE(succeeds(list));
  const json gpus = json::parse(list.output)["gpus"];
  EXPECT_GE(gpus.size(), 25U);
  for (const json& gpu : gpus) {
    const std::string name = gpu["name"];
    if (name.ends_with("-measured") || name == "cpu-zen5-core") {
      continue;  // a machine's own measurements, with a cluster of their own
    }
    const ProgramRun run = run_plan({"new-cluster", "--gpu", name, "-o", mine});
    EXPECT_TRUE(succeeds(run)) << name << ": " << run.errors;
    EXPECT_EQ(cluster_of(mine)["gpu"]["memory_GiB"], gpu["memory_GiB"]) << name;
  }
  const fs::path gpu =
      directory.file("gpu.json",
                     R"({"schema": "ptdp.gpu/1", "name": "rtx-3090", "source": "a data sheet",
          "architecture": "ampere", "peak_fp16_TFLOPs": 71, "peak_bf16_TFLOPs": 71,
          "memory_GiB": 24, "memory_bandwidth_GBps": 936, "num_multiprocessors": 82})");
  const ProgramRun run =
      run_plan({"new-cluster", "--from", "dgx-h100", "--gpu", gpu.string(), "--link", "25GB",
                "--gpus-per-node", "2", "--nic", "1x100Gb", "-o", mine});
  ASSERT_TRUE(succeeds(run)) << run.errors;
  const ProgramRun plan =
      run_plan({"-v", "--gpus", "8", "--model", "gpt2-1.5b", "--cluster", mine});
  ASSERT_TRUE(succeeds(plan)) << plan.errors;
  EXPECT_THAT(plan.output, HasSubstr("what kernels reach on rtx-3090 is assumed: the fractions "
                                     "measured on a100-80gb-sxm"));
}

// A GPU whose constants are another's is less sure than the other itself.
TEST(NewCluster, OfAnUnmeasuredGpuHasAWiderInterval) {
  const TemporaryDirectory directory;
  json gpu = json::parse(source_file("profiles/gpus/h100-80gb-sxm.json"));
  const auto width_of = [&](const json& spec) {
    const fs::path file = directory.file("gpu.json", spec.dump());
    const std::string mine = (directory.path() / "mine.json").string();
    EXPECT_TRUE(succeeds(run_plan({"new-cluster", "--from", "dgx-h100", "--gpu", file.string(),
                                   "--link", "450GB", "-o", mine})));
    const ProgramRun run =
        run_plan({"--gpus", "8", "--model", "gpt2-1.5b", "--cluster", mine, "--format", "json"});
    const json time = json::parse(run.output)["plans"][0]["predicted"];
    return time["interval_s"][1].get<double>() / time["interval_s"][0].get<double>();
  };
  gpu["name"] = "mine";
  const double measured = width_of(gpu);
  gpu["is_assumed"] = true;
  EXPECT_GT(width_of(gpu), 1.1 * measured);
}

TEST(NewCluster, NamesAllKeysThatAGpuLacks) {
  const TemporaryDirectory directory;
  const fs::path gpu =
      directory.file("gpu.json", R"({"name": "g", "source": "s", "peak_fp16_TFLOPs": 71})");
  const ProgramRun run = run_plan({"new-cluster", "--from", "dgx-h100", "--gpu", gpu.string(), "-o",
                                   (directory.path() / "mine.json").string()});
  EXPECT_TRUE(is_refused(run, {"gpu.json", "schema"}));
  const fs::path cluster = directory.file("c.json", [] {
    json text = json::parse(source_file("profiles/clusters/dgx-h100.json"));
    text["gpu"] = json::parse(R"({"name": "g", "source": "s", "peak_fp16_TFLOPs": 71})");
    return text.dump();
  }());
  EXPECT_TRUE(
      is_refused(run_plan({"--gpus", "8", "--model", "1.7B", "--cluster", cluster.string()}),
                 {"c.json: gpu.memory_GiB, gpu.memory_bandwidth_GBps, gpu.num_multiprocessors, "
                  "gpu.matmul_efficiency",
                  "gpu.kernel_latency_us: missing", "an architecture, one of volta"}));
}

TEST(NewCluster, RefusesWhatItCannotUse) {
  const TemporaryDirectory directory;
  const std::string mine = (directory.path() / "mine.json").string();
  const fs::path bench = directory.file("a.txt", kAllReduceOfEight);
  EXPECT_TRUE(is_refused(run_plan({"new-cluster", "--from", "dgx-h100"}), {"--output"}));
  EXPECT_TRUE(is_refused(run_plan({"new-cluster", "-o", mine}), {"--from is missing"}));
  EXPECT_TRUE(is_refused(run_plan({"new-cluster", "--from", "dgx-h100", "-o", "mine"}),
                         {"--output", "ends in .json"}));
  EXPECT_TRUE(is_refused(
      run_plan({"new-cluster", "--from", "dgx-h100", "--nic", "400Gb", "-o", mine}), {"--nic"}));
  EXPECT_TRUE(
      is_refused(run_plan({"new-cluster", "--from", "dgx-h100", "--nccl-tests", bench.string(),
                           "-o", bench.string() + ".json", "--model", "1T"}),
                 {"--model"}));
  EXPECT_TRUE(is_refused(run_plan({"--gpus", "8", "--model", "1.7B", "--nic", "8x400Gb"}),
                         {"--nic: used by `new-cluster` only"}));
  EXPECT_FALSE(fs::exists(mine));
}

}  // namespace
}  // namespace ptdp
