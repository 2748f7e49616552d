// Products in 8 and 4 bits by the libraries that training stacks call, and their casts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/layer/fp8_casts.h"
#include "cost_model/operations/gemm.h"
#include "cost_model/text/csv_table.h"
#include "tests/validation/kernels/measured_kernels.h"

namespace ptdp {
namespace {

constexpr double kFourBitsWithScales = 0.5 + 1.0 / 16.0;  // bytes of an element
constexpr double kEightBitsWithScales = 1.0 + 1.0 / 32.0;
constexpr double kInBf16 = 2.0;

CsvTable golden(const std::string& name) {
  return CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/" + name);
}

LowBitProducts& products_of(GpuSpec& gpu, LowBitFormat format) {
  return *std::ranges::find(gpu.low_bit_products, format, &LowBitProducts::format);
}

Seconds time_in_four_bits(const MeasuredKernel& kernel, const GpuSpec& gpu) {
  return low_bit_matmul_time(
      {.m = kernel.m, .n = kernel.n, .k = kernel.k, .element_bytes = kFourBitsWithScales}, gpu,
      LowBitFormat::kNvfp4);
}

/// Returns the square products of a B200 in the format of a column.
std::vector<MeasuredKernel> square_products(const char* column) {
  const CsvTable table = golden("products_cublas_b200.csv");
  std::vector<MeasuredKernel> kernels;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const std::int64_t size = std::stoll(table.text(row, "size"));
    kernels.push_back({.m = size,
                       .n = size,
                       .k = size,
                       .time = microseconds(std::stod(table.text(row, column)))});
  }
  return kernels;
}

TEST(CublasProducts, InFourBitsGiveTheProfilesConstants) {
  GpuSpec gpu = gpu_at_full_clocks("b200-180gb-sxm");
  LowBitProducts& own = products_of(gpu, LowBitFormat::kNvfp4);
  double start_us = own.start.value() / kMicro;
  const KernelTime time = [&](const MeasuredKernel& kernel) {
    own.start = microseconds(start_us);
    return time_in_four_bits(kernel, gpu);
  };
  expect_refitted(square_products("nvfp4_us"), time,
                  {{"efficiency", &own.efficiency, 1.0},
                   {"startup_depth", &own.startup_depth, 2000.0},
                   {"start_us", &start_us, 20.0}});
}

// Nothing was fitted to the products in bf16, which say that the source agrees with the profile's.
TEST(CublasProducts, AreAsLongAsTheyShouldBe) {
  const GpuSpec gpu = gpu_at_full_clocks("b200-180gb-sxm");
  const KernelErrors four =
      errors_on(square_products("nvfp4_us"),
                [&](const MeasuredKernel& kernel) { return time_in_four_bits(kernel, gpu); });
  const KernelErrors sixteen =
      errors_on(square_products("bf16_us"), [&](const MeasuredKernel& kernel) {
        return matmul_time({.m = kernel.m, .n = kernel.n, .k = kernel.k}, gpu, gpu.peak_bf16);
      });
  std::cout << "nvfp4: " << four << " %, bf16: " << sixteen << " %\n";
  EXPECT_LT(four.p90, 0.12);
  EXPECT_LT(sixteen.p90, 0.12);
}

struct Product {
  std::int64_t rows = 0;  ///< Rows of what a linear layer takes in.
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// A pass of a layer on a B300: four linear layers one after another, each with casts of its input
/// and of its weights.
struct Pass {
  std::string name;
  std::array<Product, 4> products;
};

std::vector<Pass> layer_passes() {
  constexpr std::int64_t t = 15'872;
  constexpr std::int64_t h = 4096;
  constexpr std::int64_t f = 16'384;
  return {{"forward", {{{t, h, 3 * h}, {t, h, h}, {t, h, f}, {t, f, h}}}},
          {"data", {{{t, 3 * h, h}, {t, h, h}, {t, f, h}, {t, h, f}}}},
          {"weights", {{{h, t, 3 * h}, {h, t, h}, {h, t, f}, {f, t, h}}}}};
}

/// Returns a measured time of a pass.
Seconds measured(const std::string& pass, const std::string& format, const char* column) {
  const CsvTable table = golden("te_layer_b300.csv");
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    if (table.text(row, "pass") == pass && table.text(row, "format") == format) {
      return Seconds(1e-3 * std::stod(table.text(row, column)));
    }
  }
  ADD_FAILURE() << pass << ' ' << format;
  return Seconds(1.0);
}

/// The layer of TransformerEngine's benchmark, on a B300 at full clocks: its loops of a tenth of a
/// second are too short for the limit of power to act.
struct TransformerEngineLayer : testing::Test {
  [[nodiscard]] Seconds modeled(const Pass& pass, const std::string& format) const {
    Seconds sum;
    for (const Product& product : pass.products) {
      MatmulShape shape{.m = product.rows, .n = product.out, .k = product.in};
      if (format == "bf16") {
        sum += matmul_time(shape, gpu, gpu.peak_bf16);
        continue;
      }
      shape.element_bytes = format == "nvfp4"    ? kFourBitsWithScales
                            : format == "fp8-mx" ? kEightBitsWithScales
                                                 : 1.0;
      sum += low_bit_matmul_time(shape, gpu,
                                 format == "nvfp4"    ? LowBitFormat::kNvfp4
                                 : format == "fp8-mx" ? LowBitFormat::kFp8Mx
                                                      : LowBitFormat::kFp8);
    }
    return sum;
  }

  /// Returns how long products in a format take, over those in 8 bits with a scale per tensor.
  [[nodiscard]] static double share_of_fp8(const std::string& format, const auto& time_of) {
    Seconds sum;
    Seconds in_fp8;
    for (const Pass& pass : layer_passes()) {
      sum += time_of(pass, format);
      in_fp8 += time_of(pass, "fp8-current");
    }
    return sum / in_fp8;
  }

  /// Returns what casts of both factors of all products take, which read and write `bytes` for each
  /// element in `kernels` kernels for each factor.
  [[nodiscard]] Seconds casts(double bytes, double kernels, LowBitFormat format) const {
    Seconds sum;
    for (const Pass& pass : layer_passes()) {
      for (const Product& product : pass.products) {
        const auto elements =
            static_cast<double>(product.rows * product.in + product.in * product.out);
        sum += cast_time(Bytes(bytes * elements), 2.0 * kernels, gpu, format);
      }
    }
    return sum;
  }

  [[nodiscard]] static Seconds measured_casts(const std::string& format) {
    Seconds sum;
    for (const Pass& pass : layer_passes()) {
      sum +=
          measured(pass.name, format, "with_casts_ms") - measured(pass.name, format, "products_ms");
    }
    return sum;
  }

  GpuSpec gpu = gpu_at_full_clocks("b300-sxm");
};

TEST_F(TransformerEngineLayer, TakesAsLongAsMeasured) {
  for (const char* format : {"bf16", "fp8-current", "fp8-mx", "nvfp4"}) {
    for (const Pass& pass : layer_passes()) {
      const double ratio = modeled(pass, format) / measured(pass.name, format, "products_ms");
      std::cout << format << ", " << pass.name << ": " << 100.0 * (ratio - 1.0) << " %\n";
      EXPECT_NEAR(ratio, 1.0, 0.1) << format << ' ' << pass.name;
    }
  }
}

// Against fp8 of the same table, so that the clock of its card does not count.
TEST_F(TransformerEngineLayer, GivesWhatBlocksAndFourBitsReach) {
  for (const char* format : {"fp8-mx", "nvfp4"}) {
    const double by_model = share_of_fp8(
        format, [&](const Pass& pass, const std::string& of) { return modeled(pass, of); });
    const double by_table = share_of_fp8(format, [&](const Pass& pass, const std::string& of) {
      return measured(pass.name, of, "products_ms");
    });
    EXPECT_NEAR(by_model / by_table, 1.0, 0.01) << format;
  }
}

// Both copies are written in one kernel; for 4 bits another one reads the factor for its largest
// element. What remains of two sums of products is uncertain by a sixth: fp8's was not fitted.
TEST_F(TransformerEngineLayer, CastsAsTheProfileSays) {
  EXPECT_NEAR(casts(kInBf16 + 2.0 * kEightBitsWithScales, 1.0, LowBitFormat::kFp8Mx) /
                  measured_casts("fp8-mx"),
              1.0, 0.01);
  EXPECT_NEAR(casts(2.0 * kInBf16 + 2.0 * kFourBitsWithScales, 2.0, LowBitFormat::kNvfp4) /
                  measured_casts("nvfp4"),
              1.0, 0.01);
  EXPECT_NEAR(casts(2.0 * kInBf16 + 1.0, 2.0, LowBitFormat::kFp8) / measured_casts("fp8-current"),
              1.0, 0.2);
}

// Other Blackwells have the ratios of the B300 to fp8. In 4 bits the GB300 does; the B200 has been
// measured, and the GB200 follows it.
TEST_F(TransformerEngineLayer, SpeaksForOtherGpus) {
  const LowBitProducts mx = products_of(gpu, LowBitFormat::kFp8Mx);
  const LowBitProducts four = products_of(gpu, LowBitFormat::kNvfp4);
  const double in_fp8 = products_of(gpu, LowBitFormat::kFp8).efficiency;
  for (const char* name : {"b200-180gb-sxm", "b200-180gb-sxm-aicr", "gb200-nvl72", "gb300-nvl72"}) {
    GpuSpec other = find_gpu(name);
    const LowBitProducts fp8 = products_of(other, LowBitFormat::kFp8);
    const LowBitProducts its_mx = products_of(other, LowBitFormat::kFp8Mx);
    const LowBitProducts its_four = products_of(other, LowBitFormat::kNvfp4);
    EXPECT_NEAR(its_mx.efficiency / fp8.efficiency, mx.efficiency / in_fp8, 1e-3) << name;
    EXPECT_EQ(its_mx.startup_depth, fp8.startup_depth) << name;
    EXPECT_EQ(its_mx.sustained, fp8.sustained) << name;
    EXPECT_EQ(its_four.sustained, fp8.sustained) << name;
    EXPECT_EQ(its_mx.cast_efficiency, mx.cast_efficiency) << name;
    EXPECT_EQ(its_four.cast_efficiency, four.cast_efficiency) << name;
    EXPECT_EQ(its_four.startup_depth, four.startup_depth) << name;
    if (std::string(name) == "gb300-nvl72") {
      EXPECT_NEAR(its_four.efficiency / fp8.efficiency, four.efficiency / in_fp8, 1e-3);
    }
  }
}

}  // namespace
}  // namespace ptdp
