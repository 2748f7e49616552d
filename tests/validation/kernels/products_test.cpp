// Matrix products in 16 bits against what NVIDIA measured on single products.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <string>
#include <vector>

#include "cost_model/operations/gemm.h"
#include "tests/validation/kernels/measured_kernels.h"

namespace ptdp {
namespace {

/// A system of the measurements, and our profile of its GPU.
struct System {
  std::string name;
  std::string gpu;
  /// Level-2 cache in which the factors of smaller products stay from one repetition to the next,
  /// which those of a training step do not; 0: all products count.
  Bytes cache = Bytes(0.0);
};

std::ostream& operator<<(std::ostream& out, const System& system) {
  return out << system.gpu;
}

struct MeasuredProducts : testing::TestWithParam<System> {
  /// Returns the time of a product at full clocks.
  [[nodiscard]] KernelTime model() const {
    return [this](const MeasuredKernel& kernel) {
      return matmul_time({.m = kernel.m, .n = kernel.n, .k = kernel.k}, gpu, gpu.peak_bf16);
    };
  }
  /// Returns the products for which the profile's constants hold: weights beyond a single tile, and
  /// too short for the limit of power to act.
  [[nodiscard]] std::vector<MeasuredKernel> short_products() const {
    std::vector<MeasuredKernel> kernels = all;
    std::erase_if(kernels, [](const MeasuredKernel& kernel) {
      const auto elements =
          static_cast<double>(kernel.m * kernel.k + kernel.k * kernel.n + kernel.m * kernel.n);
      return kernel.m < 128 || std::min(kernel.n, kernel.k) < 512 || kernel.time >= Seconds(3e-3) ||
             Bytes(2.0 * elements) < GetParam().cache;
    });
    return kernels;
  }

  std::vector<MeasuredKernel> all = measured_kernels(GetParam().name, "trtllm", "gemm", "bf16");
  GpuSpec gpu = gpu_at_full_clocks(GetParam().gpu);
};

TEST_P(MeasuredProducts, GiveTheProfilesConstants) {
  std::vector<FittedConstant> constants = {
      {"matmul_efficiency", &gpu.matmul_efficiency, 1.0},
      {"matmul_memory_efficiency", &gpu.matmul_memory_efficiency, 1.0}};
  // The A100's rows lead to no overlap of waves, Blackwell's to no startup beside the output's.
  if (gpu.matmul_wave_overlap > 0.0) {
    constants.push_back({"matmul_wave_overlap", &gpu.matmul_wave_overlap, 1.0});
  }
  if (gpu.matmul_startup_depth > 0.0) {
    constants.push_back({"matmul_startup_depth", &gpu.matmul_startup_depth, 500.0});
  }
  expect_refitted(short_products(), model(), constants);
}

TEST_P(MeasuredProducts, AreAsLongAsTheyShouldBe) {
  const KernelErrors errors = errors_on(short_products(), model());
  std::cout << GetParam().gpu << ": " << errors << " %\n";
  EXPECT_LT(errors.median, 0.065);
  EXPECT_LT(errors.p90, 0.20);
}

INSTANTIATE_TEST_SUITE_P(
    Gpus, MeasuredProducts,
    testing::Values(System{"a100_sxm", "a100-80gb-sxm"}, System{"h100_sxm", "h100-80gb-sxm"},
                    System{"h200_sxm", "h200-141gb-sxm"}, System{"b200_sxm", "b200-180gb-sxm"},
                    System{"gb200", "gb200-nvl72"}, System{"gb300", "gb300-nvl72"},
                    System{"l40s", "l40s", Bytes(96e6)},
                    System{"rtx_pro_6000_server", "rtx-pro-6000-blackwell"}));

}  // namespace
}  // namespace ptdp
