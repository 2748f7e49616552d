// Tests of which clusters, stacks and models go together.
#include "cost_model/inputs/scenario.h"

#include <gtest/gtest.h>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/stack_precision.h"
#include "tests/support/scenarios.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

std::string verdict_on_scenario(const Scenario& scenario) {
  return message_of([&] {
    check(scenario);
    return 0;
  });
}

TEST(CheckScenario, AcceptsEveryClusterWithItsDefaultStack) {
  for (const std::string& name : list_profiles(ProfileKind::kCluster)) {
    const Scenario scenario = shipped_scenario("1T", name, find_cluster(name).default_stack);
    EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown") << name;
  }
}

TEST(MatmulPeak, IsThatOfThePrecisionOrOf8Bits) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025");
  scenario.cluster.gpu.peak_fp8 = teraflops(1234.0);
  scenario.cluster.gpu.peak_bf16 = teraflops(567.0);
  scenario.cluster.gpu.peak_fp16 = teraflops(89.0);
  EXPECT_EQ(matmul_peak(scenario), teraflops(567.0));
  scenario.stack = with_fp8(scenario.stack, "fp8");
  EXPECT_EQ(matmul_peak(scenario), teraflops(1234.0));
  scenario.stack = at_precision(scenario.stack, Precision::kFp16);
  EXPECT_EQ(matmul_peak(scenario), teraflops(89.0));
}

TEST(CheckScenario, RefusesAGpuWithoutThePrecisionOfTheStack) {
  Scenario scenario = shipped_scenario("1T", "dgx2-v100", "megatron-lm-2021");
  scenario.stack.precision = Precision::kBf16;
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack megatron-lm-2021 trains in bf16, for which v100-32gb-sxm2 of cluster dgx2-v100 "
            "has no matrix units");
  scenario.stack.precision = Precision::kFp64;
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack megatron-lm-2021 trains in fp64, for which v100-32gb-sxm2 of cluster dgx2-v100 "
            "has no matrix units");
}

TEST(CheckScenario, RefusesAGpuWithoutMatrixUnitsFor8Bits) {
  Scenario scenario = shipped_scenario("llama-3-8b", "selene-a100", "megatron-core-2024");
  scenario.stack = with_fp8(scenario.stack, "fp8");
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack megatron-core-2024 trains linear layers in fp8-delayed, for which "
            "a100-80gb-sxm of cluster selene-a100 has no matrix units; expected a GPU with "
            "peak_fp8_TFLOPs, or precision bf16");
  scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-core-2025");
  scenario.stack = with_fp8(scenario.stack, "fp8-mx");
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack megatron-core-2025 trains linear layers in fp8-mx, for which h100-80gb-sxm of "
            "cluster dgx-h100 has no matrix units; expected a GPU with fp8_mx, or precision bf16");
  scenario.cluster = find_cluster("dgx-b200");
  EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown");
}

// NVIDIA's V100 has no TF32; the runtime multiplies fp32 numbers as they are.
TEST(CheckScenario, RefusesTf32ByName) {
  Scenario scenario = shipped_scenario("1T", "dgx2-v100", "megatron-lm-2021");
  scenario.stack = with_precision(scenario.stack, "tf32");
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack megatron-lm-2021 trains in tf32, for which v100-32gb-sxm2 of cluster dgx2-v100 "
            "has no matrix units");
  scenario.cluster = find_cluster("selene-a100");
  EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown");
  scenario = shipped_scenario("llama-3-8b", "hgx-h200", "ptdp-cuda");
  scenario.stack = with_precision(scenario.stack, "tf32");
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack ptdp-cuda trains in tf32: this project's runtime multiplies fp32 numbers as "
            "they are; expected fp32");
}

TEST(CheckScenario, RefusesAGpuWithoutMatrixUnitsFor4Bits) {
  Scenario scenario = shipped_scenario("llama-3-8b", "dgx-h100", "megatron-bridge-2025");
  scenario.stack = with_precision(scenario.stack, "nvfp4");
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack megatron-bridge-2025 trains linear layers in nvfp4, for which h100-80gb-sxm of "
            "cluster dgx-h100 has no matrix units; expected a GPU with peak_fp4_TFLOPs, or "
            "precision bf16");
  scenario.cluster = find_cluster("dgx-gb300");
  EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown");
  EXPECT_EQ(matmul_peak(scenario), teraflops(15'000.0));
}

TEST(CheckScenario, RefusesToHideTensorParallelismOnAHost) {
  Scenario scenario = shipped_scenario("gpt-mini", "host", "ptdp-cpu");
  scenario.stack.tensor_parallel_overlap = true;
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack ptdp-cpu has tensor_parallel_overlap: a host's collectives are done when they "
            "are begun, so none runs behind a product; expected false, and no tensor in --overlap");
}

TEST(CheckScenario, RefusesProductsInChunksOfOurRuntime) {
  Scenario scenario = shipped_scenario("gpt-mini", "host", "ptdp-cpu");
  scenario.stack.tp_comm_overlap = TpCommOverlap::kUserBuffers;
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack ptdp-cpu has tp_comm_overlap: this project's runtime does not cut products into "
            "chunks; expected none");
}

// The A100 profile has rates of flash-1 and flash-2 only.
TEST(CheckScenario, RefusesAGpuWithoutARateForTheAttentionKernel) {
  Scenario scenario = selene_2021("1T");
  scenario.stack.attention = "flash-9";
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack megatron-lm-2021 uses flash-9 attention, for which a100-80gb-sxm of cluster "
            "selene-a100 has no measured rate");
  scenario.stack.attention = "flash-2";
  EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown");
  // Another kernel of the stack stands in where the GPU has a rate for that alone.
  scenario.stack.other_attention = "flash-1";
  EXPECT_EQ(attention_kernel(scenario.cluster.gpu, scenario.stack), "flash-2");
  scenario.stack.attention = "flash-9";
  EXPECT_EQ(attention_kernel(scenario.cluster.gpu, scenario.stack), "flash-1");
  EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown");
  scenario.stack.other_attention = "flash-8";
  EXPECT_EQ(attention_kernel(scenario.cluster.gpu, scenario.stack), "flash-9");
  scenario.stack.attention = "unfused";
  EXPECT_EQ(attention_kernel(scenario.cluster.gpu, scenario.stack), "unfused");
}

TEST(CheckScenario, GivesThisProjectsRuntimeNoRelativePositions) {
  Scenario scenario = shipped_scenario("chinchilla-70b", "dgx-h100", "ptdp-cuda");
  EXPECT_EQ(verdict_on_scenario(scenario),
            "stack ptdp-cuda does not run position_embedding relative, which model chinchilla-70b "
            "has; expected learned, rope or none, or another stack");
  scenario.job.model.position_embedding = PositionEmbedding::kNone;
  EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown");
}

// cuDNN's rates are the only ones of Blackwell's GPUs, and what PyTorch takes there.
TEST(CheckScenario, LetsTorchtitanRunOnBlackwell) {
  const Scenario old = shipped_scenario("llama-3-8b", "dgx-h100", "torchtitan-2024");
  EXPECT_EQ(attention_kernel(old.cluster.gpu, old.stack), "flash-2");
  for (const char* cluster : {"dgx-b200", "dgx-gb200", "dgx-b300", "dgx-gb300"}) {
    const Scenario scenario = shipped_scenario("llama-3-8b", cluster, "torchtitan-2024");
    EXPECT_EQ(verdict_on_scenario(scenario), "nothing was thrown") << cluster;
    EXPECT_EQ(attention_kernel(scenario.cluster.gpu, scenario.stack), "cudnn") << cluster;
  }
}

}  // namespace
}  // namespace ptdp
