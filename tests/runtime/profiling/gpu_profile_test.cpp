// Tests what is in the profile of an emulated GPU, not how fast that GPU is.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/iteration/iteration.h"
#include "cost_model/layer/element_wise.h"
#include "kernels/cuda/cuda_backend.h"
#include "runtime/profiling/machine_profile.h"
#include "runtime/profiling/profiled_models.h"
#include "tests/support/scenarios.h"
#include "tests/support/temporary_directory.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Returns options for a GPU of an H200's node, with sizes that an emulation can run.
ProfileOptions tiny_options() {
  ProfileOptions options{
      .name = "tiny",
      .device = gpu_device(
          {.name = "NVIDIA H200",
           .num_multiprocessors = 4,
           .memory = Bytes(kGibi),
           .links = find_cluster("hgx-h200"),
           .seconds = 0.1,
           .make_backend = [] { return make_cuda_backend({.uses_graphs = true}); },
           .take_samples =
               [] { return std::vector<DeviceSample>{{.clock = 1700.0, .power = 500.0}}; }}),
      .precisions = {Precision::kBf16},
      .seconds = 0.1,
      .description = "An emulation."};
  ProfiledDevice& device = options.device;
  device.warm_up = 0.0;
  device.copies = {1 << 10, 1 << 12, 1 << 14};
  device.host_copies = {1 << 12};
  device.peak_size = 32;
  device.models = [](double) {
    return std::vector<ProfiledModel>{profiled_model({16, 2, 8, 64, 8, 1, 128, 1, 0.0}),
                                      profiled_model({32, 2, 16, 128, 16, 1, 128, 1, 0.0}),
                                      profiled_model({16, 2, 8, 64, 8, 1, 128, 1, 0.1}),
                                      profiled_model({32, 2, 16, 128, 16, 1, 128, 1, 0.1}),
                                      profiled_model({4096, 32, 128, 16384, 32, 2, 128, 9, 0.0})};
  };
  return options;
}

/// Returns the profile of a machine that may be busy, and then too unsteady for one try, and writes
/// what was told of its making.
MachineProfile steady_profile(std::vector<std::string>& told) {
  ProfileOptions options = tiny_options();
  options.on_progress = [&](const std::string& line) { told.push_back(line); };
  for (int left = 3;; --left) {
    told.clear();
    try {
      return profile_machine(options).value();
    } catch (const Error& error) {
      if (left == 1 || std::string_view(error.what()).find("too unsteady") == std::string::npos) {
        throw;
      }
    }
  }
}

class GpuProfile : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    profile = steady_profile(told);
    const TemporaryDirectory directory;
    read_back = find_cluster(directory.file("tiny.json", cluster_file(profile.cluster)).string());
  }

  static inline MachineProfile profile;
  static inline ClusterSpec read_back;
  static inline std::vector<std::string> told;
};

TEST_F(GpuProfile, IsAClusterWithTheNodesAndLinksOfAnother) {
  const ClusterSpec shipped = find_cluster("hgx-h200");
  EXPECT_EQ(read_back.name, "tiny");
  EXPECT_EQ(read_back.gpu.name, "tiny-gpu");
  EXPECT_EQ(read_back.default_stack, "ptdp-cuda");
  EXPECT_EQ(read_back.gpus_per_node, shipped.gpus_per_node);
  EXPECT_EQ(read_back.nvlink, shipped.nvlink);
  EXPECT_EQ(read_back.nic, shipped.nic);
  EXPECT_EQ(read_back.all_reduce_curves, shipped.all_reduce_curves);
  EXPECT_EQ(read_back.nccl.has_value(), shipped.nccl.has_value());
  EXPECT_TRUE(read_back.message_curve.empty());
  EXPECT_THAT(read_back.source, HasSubstr("collectives are those of hgx-h200"));
}

TEST_F(GpuProfile, HasNothingOfAHost) {
  EXPECT_FALSE(read_back.cores_per_node.has_value());
  EXPECT_TRUE(read_back.busy_cores.empty());
  EXPECT_DOUBLE_EQ(profile.processor_share, 1.0);
  EXPECT_THAT(read_back.source, Not(HasSubstr("core")));
}

TEST_F(GpuProfile, KeepsPeaksOfTheDataSheetAndRatesOfOtherKernels) {
  const GpuSpec shipped = find_gpu("h200-141gb-sxm");
  EXPECT_EQ(profile.cluster.gpu.peak_bf16, shipped.peak_bf16);
  EXPECT_EQ(read_back.gpu.peak_fp64, FlopsPerSecond(0.0));
  EXPECT_EQ(read_back.gpu.num_multiprocessors, 4);
  EXPECT_EQ(read_back.gpu.memory, Bytes(kGibi));
  ASSERT_EQ(profile.products.size(), 3U);
  EXPECT_EQ(profile.products.front().first, Precision::kBf16);
  std::set<std::string> kernels;
  for (const AttentionRate& rate : read_back.gpu.attention_rates) {
    kernels.insert(rate.kernel);
  }
  EXPECT_THAT(kernels,
              testing::UnorderedElementsAre("flash-2", "cudnn", "ptdp-cuda", "ptdp-cuda-dropout"));
}

TEST_F(GpuProfile, HasATableOfEveryOperation) {
  using enum DeviceOperation;
  for (const DeviceOperation operation : {kForwardProduct,
                                          kInputGradientProduct,
                                          kWeightGradientProduct,
                                          kAttention,
                                          kAttentionBackward,
                                          kDropoutAttention,
                                          kDropoutAttentionBackward,
                                          kLayerNorm,
                                          kLayerNormBackward,
                                          kLayerNormBackwardBias,
                                          kBiasAdd,
                                          kBiasDropoutAdd,
                                          kSumLayerNorm,
                                          kDropoutSumLayerNorm,
                                          kDropoutBackward,
                                          kCopy,
                                          kEmbedding,
                                          kEmbeddingGradient,
                                          kPositions,
                                          kPositionGradient,
                                          kCrossEntropy,
                                          kCrossEntropyBackward,
                                          kAddSquares,
                                          kAdamW}) {
    EXPECT_NE(find_measured(read_back.gpu.measured_operations, operation, Precision::kBf16),
              nullptr)
        << name_of(operation);
  }
  // Products do these.
  for (const DeviceOperation operation : {kBias, kBiasGradient, kBiasGelu, kGeluBackward}) {
    EXPECT_EQ(find_measured(read_back.gpu.measured_operations, operation, Precision::kBf16),
              nullptr)
        << name_of(operation);
  }
}

TEST_F(GpuProfile, SaysWhatWasMeasuredBesides) {
  EXPECT_GT(profile.launches.device, 0.0);
  EXPECT_GT(profile.launches.of_host, 0.0);
  EXPECT_GT(profile.launches.in_graph, 0.0);
  ASSERT_EQ(profile.host_copies.size(), 1U);
  EXPECT_GT(profile.host_copies.front().in.value(), 0.0);
  EXPECT_EQ(profile.rounds.size(), 2U);
  EXPECT_THAT(read_back.source, HasSubstr("clock 1700 MHz"));
  EXPECT_THAT(read_back.source, HasSubstr("500 W"));
  EXPECT_THAT(read_back.source, HasSubstr("from the host"));
}

// "layers in bf16: hidden 32, 16 tokens: a step takes 1.23 ms, 4 GFLOP/s": time and rate are told
// in three digits and in whole GFLOP/s, and are together what a step computes.
TEST_F(GpuProfile, TellsOfTimeAndRateOfTheSameStep) {
  const std::map<std::string, ProfiledModel> models = {
      {"hidden 16, 8 tokens", profiled_model({16, 2, 8, 64, 8, 1, 128, 1, 0.0})},
      {"hidden 32, 16 tokens", profiled_model({32, 2, 16, 128, 16, 1, 128, 1, 0.0})}};
  const std::string begin = "layers in bf16: ";
  const std::string takes = ": a step takes ";
  int num_told = 0;
  for (const std::string& line : told) {
    if (!line.starts_with(begin)) {
      continue;
    }
    ++num_told;
    const std::size_t end = line.find(takes);
    ASSERT_NE(end, std::string::npos) << line;
    const std::string model = line.substr(begin.size(), end - begin.size());
    ASSERT_TRUE(models.contains(model)) << line;
    double milliseconds = 0.0;
    double gigaflops = 0.0;
    std::istringstream numbers(line.substr(end + takes.size()));
    std::string time_unit;
    std::string rate_unit;
    numbers >> milliseconds >> time_unit >> gigaflops >> rate_unit;
    ASSERT_EQ(time_unit + rate_unit, "ms,GFLOP/s") << line;
    const double expected = step_flops(models.at(model)) / (1e-3 * milliseconds) / 1e9;
    EXPECT_NEAR(gigaflops, expected, 0.51 + 0.006 * expected) << line;
  }
  EXPECT_EQ(num_told, 2 * 4) << "two rounds of the models that fit";
}

// Nine layers of 12·4096² parameters take 32 GB; two sequences of 32 tokens are 64.
TEST_F(GpuProfile, LeavesOutWhatTheMemoryDoesNotHold) {
  EXPECT_THAT(profile.too_large, testing::ElementsAre("bf16: hidden 4096, 64 tokens"));
  EXPECT_THAT(read_back.source, HasSubstr("1 of the models"));
}

TEST_F(GpuProfile, IsWhatPlansAreCostedWith) {
  Scenario scenario = shipped_scenario("gpt2-124m", "hgx-h200", "ptdp-cuda");
  scenario.cluster = read_back;
  check(scenario);
  EXPECT_TRUE(has_measured_operations(scenario));
  EXPECT_GT(iteration_cost({scenario, {.dp = 8}}).total().value(), 0.0);
}

TEST(GpuDevice, OfNoKnownKindHasThePeaksThatAreMeasured) {
  const ProfiledDevice device = gpu_device({.name = "NVIDIA GeForce RTX 4090",
                                            .num_multiprocessors = 128,
                                            .memory = Bytes(24.0 * kGibi),
                                            .links = find_cluster("dgx-a100-40gb")});
  EXPECT_EQ(device.cluster.gpu.peak_bf16, FlopsPerSecond(0.0));
  EXPECT_EQ(device.peaks, "the best products");
  EXPECT_THAT(device.unmeasured, HasSubstr("dgx-a100-40gb"));
}

}  // namespace
}  // namespace ptdp
