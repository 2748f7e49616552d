// Casts, and products in 8 and 4 bits, against what NVIDIA measured on single operations.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/layer/fp8_casts.h"
#include "cost_model/operations/gemm.h"
#include "tests/validation/kernels/measured_kernels.h"

namespace ptdp {
namespace {

constexpr double kReadInBf16 = 2.0;  // bytes per element
constexpr double kWrittenInFp8 = 1.0;

double elements_of(const MeasuredKernel& kernel) {
  return static_cast<double>(kernel.m * kernel.k);
}

/// Returns the time of a pass over `elements` elements between those of measured passes. Smaller
/// ones take as long as the smallest, larger ones longer in proportion.
Seconds between(std::vector<MeasuredKernel> passes, double elements) {
  std::sort(passes.begin(), passes.end(), [](const MeasuredKernel& a, const MeasuredKernel& b) {
    return elements_of(a) < elements_of(b);
  });
  const auto above = std::find_if(passes.begin(), passes.end(), [&](const MeasuredKernel& pass) {
    return elements_of(pass) >= elements;
  });
  if (above == passes.begin()) {
    return above->time;
  }
  const MeasuredKernel& below = *std::prev(above);
  if (above == passes.end()) {
    return below.time * (elements / elements_of(below));
  }
  const double share =
      std::log(elements / elements_of(below)) / std::log(elements_of(*above) / elements_of(below));
  return below.time * std::pow(above->time / below.time, share);
}

/// A format of a system's measured products, and the casts that their times contain.
struct Format {
  std::string system;
  std::string gpu;
  std::string type;  ///< Column dtype of the rows.
  LowBitFormat format = LowBitFormat::kFp8;
  double element_bytes = 1.0;  ///< Bytes of an element with its part of a scale.
  /// Constants of this engine's kernels, where the profile has those of another's.
  std::optional<LowBitProducts> own = std::nullopt;
};

std::ostream& operator<<(std::ostream& out, const Format& format) {
  return out << format.gpu << ' ' << format.type;
}

struct LowBits : testing::TestWithParam<Format> {
  LowBits() {
    for (LowBitProducts& products : gpu.low_bit_products) {
      if (GetParam().own && products.format == GetParam().format) {
        products = *GetParam().own;
      }
    }
  }

  [[nodiscard]] KernelTime model() const {
    return [this](const MeasuredKernel& kernel) {
      return low_bit_matmul_time(
          {.m = kernel.m, .n = kernel.n, .k = kernel.k, .element_bytes = GetParam().element_bytes},
          gpu, GetParam().format);
    };
  }

  /// Returns the time that casts take of a measured product. TensorRT-LLM's casts by block are not
  /// measured: they are taken to cost what the profile's cost.
  [[nodiscard]] Seconds casts_of(const MeasuredKernel& kernel) const {
    const double elements = elements_of(kernel);
    if (GetParam().format == LowBitFormat::kFp8) {
      return between(casts, elements) + between(largest, elements);
    }
    return cast_time(Bytes((kReadInBf16 + GetParam().element_bytes) * elements), 1.0, gpu,
                     GetParam().format);
  }

  /// Returns the products, without their casts, that are too short for a limit of power to act.
  [[nodiscard]] std::vector<MeasuredKernel> products() const {
    std::vector<MeasuredKernel> kernels;
    for (MeasuredKernel kernel :
         measured_kernels(GetParam().system, "trtllm", "gemm", GetParam().type)) {
      if (kernel.m >= 256 && std::min(kernel.n, kernel.k) >= 512 && kernel.time < Seconds(3e-3)) {
        kernel.time = kernel.time - casts_of(kernel);
        EXPECT_GT(kernel.time, Seconds(0.0));
        kernels.push_back(kernel);
      }
    }
    return kernels;
  }

  std::vector<MeasuredKernel> casts =
      measured_kernels(GetParam().system, "trtllm", "cast_fp8", "fp8");
  std::vector<MeasuredKernel> largest =
      measured_kernels(GetParam().system, "trtllm", "largest_element", "fp8");
  GpuSpec gpu = gpu_at_full_clocks(GetParam().gpu);
};

TEST_P(LowBits, GiveTheProfilesConstants) {
  const auto own = std::find_if(
      gpu.low_bit_products.begin(), gpu.low_bit_products.end(),
      [](const LowBitProducts& products) { return products.format == GetParam().format; });
  ASSERT_NE(own, gpu.low_bit_products.end());
  // The start counts in microseconds for the search's sake.
  double start_us = own->start.value() / kMicro;
  const KernelTime time = model();
  const KernelTime with_start = [&](const MeasuredKernel& kernel) {
    own->start = microseconds(start_us);
    return time(kernel);
  };
  std::vector<FittedConstant> constants = {{"efficiency", &own->efficiency, 1.0},
                                           {"startup_depth", &own->startup_depth, 2000.0}};
  // In 8 bits it is 3 us: what is left of small products is no more than the casts are uncertain.
  if (own->format == LowBitFormat::kNvfp4) {
    constants.push_back({"start_us", &start_us, 20.0});
  }
  expect_refitted(products(), with_start, constants);
}

TEST_P(LowBits, AreAsLongAsTheyShouldBe) {
  const KernelErrors errors = errors_on(products(), model());
  std::cout << GetParam().gpu << ' ' << GetParam().type << ": " << errors << " %\n";
  // Blocks and 4 bits come from kernels that depend on more than the shape.
  const bool is_rough =
      GetParam().format == LowBitFormat::kFp8Block || GetParam().format == LowBitFormat::kNvfp4;
  EXPECT_LT(errors.median, is_rough ? 0.12 : 0.08);
  EXPECT_LT(errors.p90, is_rough ? 0.40 : 0.22);
}

// A kernel with a given scale, as training stacks have it: vLLM's.
TEST_P(LowBits, CastAsTheProfileSays) {
  double efficiency = *gpu.cast_efficiency;
  double start_us = gpu.cast_start->value() / kMicro;
  expect_refitted(measured_kernels(GetParam().system, "vllm", "cast_fp8", "fp8"),
                  [&](const MeasuredKernel& kernel) {
                    gpu.cast_efficiency = efficiency;
                    gpu.cast_start = microseconds(start_us);
                    return cast_time(Bytes((kReadInBf16 + kWrittenInFp8) * elements_of(kernel)),
                                     1.0, gpu, LowBitFormat::kFp8);
                  },
                  {{"cast_efficiency", &efficiency, 1.0}, {"cast_start_us", &start_us, 50.0}});
}

constexpr double kBlockOf128 = 1.0 + 4.0 / 128.0;
constexpr double kFourBits = 0.5 + 1.0 / 16.0;

// What TensorRT-LLM's products in 4 bits reach of the peak.
constexpr double kOnB200 = 0.452;
constexpr double kOnGb200 = 0.4468;

LowBitProducts tensor_rt_llm(double efficiency, double startup_depth, double start_us) {
  return {.format = LowBitFormat::kNvfp4,
          .efficiency = efficiency,
          .startup_depth = startup_depth,
          .start = microseconds(start_us)};
}

INSTANTIATE_TEST_SUITE_P(
    Gpus, LowBits,
    testing::Values(
        Format{"h100_sxm", "h100-80gb-sxm", "fp8", LowBitFormat::kFp8, 1.0},
        Format{"h200_sxm", "h200-141gb-sxm", "fp8", LowBitFormat::kFp8, 1.0},
        Format{"b200_sxm", "b200-180gb-sxm", "fp8", LowBitFormat::kFp8, 1.0},
        Format{"gb200", "gb200-nvl72", "fp8", LowBitFormat::kFp8, 1.0},
        Format{"gb300", "gb300-nvl72", "fp8", LowBitFormat::kFp8, 1.0},
        Format{"h100_sxm", "h100-80gb-sxm", "fp8_block", LowBitFormat::kFp8Block, kBlockOf128},
        Format{"h200_sxm", "h200-141gb-sxm", "fp8_block", LowBitFormat::kFp8Block, kBlockOf128},
        Format{"b200_sxm", "b200-180gb-sxm", "fp8_block", LowBitFormat::kFp8Block, kBlockOf128},
        Format{"gb200", "gb200-nvl72", "fp8_block", LowBitFormat::kFp8Block, kBlockOf128},
        Format{"gb300", "gb300-nvl72", "fp8_block", LowBitFormat::kFp8Block, kBlockOf128},
        Format{"b200_sxm", "b200-180gb-sxm", "nvfp4", LowBitFormat::kNvfp4, kFourBits,
               tensor_rt_llm(kOnB200, 169.8, 9.677)},
        Format{"gb200", "gb200-nvl72", "nvfp4", LowBitFormat::kNvfp4, kFourBits,
               tensor_rt_llm(kOnGb200, 180.0, 9.605)}));

// Of TensorRT-LLM's kernels in 4 bits profiles have the ratio between the two GPUs alone: cuBLAS's,
// which training stacks call, are faster.
TEST(TensorRtLlmProducts, GiveTheRatioOfTwoGpusInFourBits) {
  const auto efficiency_on = [](const char* gpu) {
    const std::vector<LowBitProducts> all = find_gpu(gpu).low_bit_products;
    return std::ranges::find(all, LowBitFormat::kNvfp4, &LowBitProducts::format)->efficiency;
  };
  EXPECT_NEAR(efficiency_on("gb200-nvl72") / efficiency_on("b200-180gb-sxm"), kOnGb200 / kOnB200,
              1e-3);
}

}  // namespace
}  // namespace ptdp
