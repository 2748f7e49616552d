// Tests of the time of matrix products, by hand and against measured products.
#include "cost_model/operations/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/measured/calibration.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

/// Returns a GPU on which the formula can be done by hand: four multiprocessors, no start-up, whole
/// waves.
GpuSpec plain_gpu() {
  GpuSpec gpu;
  gpu.num_multiprocessors = 4;
  gpu.matmul_efficiency = 1.0;
  gpu.matmul_memory_efficiency = 1.0;
  gpu.memory_bandwidth = gigabytes_per_second(1e6);  // never the bound
  return gpu;
}

TEST(MatmulTime, IsFlopsOverPeakWhenTilesFillTheGpu) {
  // 1024×1024 is 4·8 tiles of 256×128: eight whole waves on four multiprocessors.
  const MatmulShape shape{.m = 1024, .n = 1024, .k = 1024};
  EXPECT_DOUBLE_EQ(matmul_time(shape, plain_gpu(), teraflops(1.0)).value(),
                   2.0 * 1024 * 1024 * 1024 / 1e12);
}

// An H100 formed large fp32 products at 50.72 TFLOP/s (ptdp-profile, 2026-11-26): profiles/gpus,
// h100-80gb-sxm-measured. The fractions of 16 bits leave 4 % less of fp32.
TEST(MatmulTime, OfFp32ReachesWhatAnH100Measured) {
  const GpuSpec gpu = find_gpu("h100-80gb-sxm");
  const double n = 8192.0;
  const MatmulShape shape{.m = 8192, .n = 8192, .k = 8192, .element_bytes = 4, .output_bytes = 4};
  const double rate = 2.0 * n * n * n / matmul_time(shape, gpu, gpu.peak(Precision::kFp32)).value();
  EXPECT_NEAR(rate / 50.72e12, 0.96, 0.02);
}

TEST(MatmulTime, GrowsInStepsOfAWave) {
  const auto time = [](std::int64_t m) {
    return matmul_time({.m = m, .n = 128, .k = 64}, plain_gpu(), teraflops(1.0)).value();
  };
  EXPECT_DOUBLE_EQ(time(776), time(1024));         // four tiles of 256×128 either way
  EXPECT_DOUBLE_EQ(time(1544), 2.0 * time(1024));  // seven open a second wave
  EXPECT_DOUBLE_EQ(time(1544), time(2048));
}

// By hand: 1032 rows are five tiles of 256×128, two waves; or nine of 128×128, three waves, each of
// which takes half the work at 0.8 of the rate.
TEST(MatmulTime, TakesSmallTilesWhereTheyWasteLess) {
  const auto time = [](std::int64_t m) {
    return matmul_time({.m = m, .n = 128, .k = 64}, plain_gpu(), teraflops(1.0)).value();
  };
  EXPECT_DOUBLE_EQ(time(1032), 3.0 * 0.5 / 0.8 * time(1024));
}

TEST(MatmulTime, CountsPartOfALastWaveThatIsNotFull) {
  GpuSpec gpu = plain_gpu();
  gpu.matmul_wave_overlap = 0.5;
  const auto time = [&](std::int64_t m) {
    return matmul_time({.m = m, .n = 128, .k = 64}, gpu, teraflops(1.0)).value();
  };
  EXPECT_DOUBLE_EQ(time(1544), (2.0 - 0.5 * 0.25) * time(1024));  // seven tiles: 1.75 waves
  EXPECT_DOUBLE_EQ(time(256) / time(1024), 0.25 / 0.6);  // four small tiles: never below one
}

// By hand: 60 steps to start a tile and 30 per byte: two bytes, four read and written, or two.
TEST(MatmulTime, WritesTheResultOfEveryTile) {
  GpuSpec gpu = plain_gpu();
  gpu.matmul_startup_depth = 60.0;
  gpu.matmul_output_depth = 30.0;
  MatmulShape shape{.m = 1024, .n = 1024, .k = 1024};
  const auto time = [&] { return matmul_time(shape, gpu, teraflops(1.0)).value(); };
  const double step = 2.0 * 1024 * 1024 / 1e12;
  EXPECT_DOUBLE_EQ(time(), step * (1024 + 60 + 2 * 30));
  shape.output_bytes = 4;
  EXPECT_DOUBLE_EQ(time(), step * (1024 + 60 + 4 * 30));
  shape.accumulate = true;
  EXPECT_DOUBLE_EQ(time(), step * (1024 + 60 + 8 * 30));
}

TEST(MatmulTime, SplitsALongInnerDimensionWhereTilesAreFew) {
  const auto time = [](std::int64_t k) {
    return matmul_time({.m = 256, .n = 128, .k = k}, plain_gpu(), teraflops(1.0)).value();
  };
  // One tile: split in four, every multiprocessor has a quarter of the inner dimension.
  EXPECT_DOUBLE_EQ(time(32768), 2.0 * 256 * 128 * 32768 / 1e12);
  // Two parts at most: those of two tiles of 128×128 fill the GPU at 0.8 of its rate.
  EXPECT_DOUBLE_EQ(time(1024), 2.0 * 256 * 128 * 1024 / (0.8 * 1e12));
  // Too short to split: four tiles of 128×64 fill it at 0.6.
  EXPECT_DOUBLE_EQ(time(512), 2.0 * 256 * 128 * 512 / (0.6 * 1e12));
}

// By the formula, all five tiles and sixteen splits tried, for sizes all over the place.
TEST(MatmulTime, IsThatOfTheBestTileAndSplit) {
  constexpr double rate = 1e12;
  GpuSpec gpu = plain_gpu();
  gpu.num_multiprocessors = 108;
  gpu.matmul_startup_depth = 80.0;
  gpu.matmul_wave_overlap = 0.3;
  gpu.memory_bandwidth = gigabytes_per_second(20.0);
  const auto best_of_all = [&](double m, double n, double k) {
    double best = INFINITY;
    for (const auto& [rows, columns, share] : std::vector<std::array<double, 3>>{
             {256, 128, 1.0}, {128, 256, 1.0}, {128, 128, 0.8}, {128, 64, 0.6}, {64, 128, 0.6}}) {
      for (int split = 1; split == 1 || (split <= 16 && k / split >= 512.0); ++split) {
        const double w = std::ceil(m / rows) * std::ceil(n / columns) * split / 108.0;
        const double waves = std::max(1.0, std::ceil(w) - 0.3 * (std::ceil(w) - w));
        const double compute =
            waves * 2.0 * rows * columns * (k / split + 80.0) / (share * rate / 108.0);
        const double bytes = 2.0 * (m * k + k * n + m * n) + 8.0 * m * n * (split - 1);
        best = std::min(best, std::max(compute, bytes / 20e9));
      }
    }
    return best;
  };
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    const auto size = [&] {
      return static_cast<std::int64_t>(8U << random() % 12U | (random() % 64U) * 8U);
    };
    const MatmulShape shape{.m = size(), .n = size(), .k = size()};
    EXPECT_DOUBLE_EQ(matmul_time(shape, gpu, teraflops(1.0)).value(),
                     best_of_all(static_cast<double>(shape.m), static_cast<double>(shape.n),
                                 static_cast<double>(shape.k)))
        << shape.m << " x " << shape.n << " x " << shape.k;
  }
}

TEST(MatmulTime, IsBytesOverBandwidthForThinProducts) {
  GpuSpec gpu = plain_gpu();
  gpu.memory_bandwidth = gigabytes_per_second(1.0);
  const MatmulShape shape{.m = 8, .n = 8192, .k = 8192};
  // Elements of 2 bytes: 8·8192 + 8192·8192 in, 8·8192 out.
  EXPECT_DOUBLE_EQ(matmul_time(shape, gpu, teraflops(1000.0)).value(),
                   2.0 * (8 * 8192.0 + 8192.0 * 8192.0 + 8 * 8192.0) / 1e9);
}

TEST(MatmulTime, DoublesForDimensionsOffTheTensorCoreGrid) {
  const auto time = [](std::int64_t k) {
    return matmul_time({.m = 1024, .n = 1024, .k = k}, plain_gpu(), teraflops(1.0)).value();
  };
  EXPECT_NEAR(time(1001) / time(1000), 2.0, 0.01);
}

// 1001 is as many tiles as 1000, of any size. Rows of all matrices lie features apart: n and k, or
// n and m where k counts tokens.
TEST(MatmulTime, DoublesForFeaturesOffTheGridAndNotForTokens) {
  const auto slower = [](MatmulShape shape) {
    return matmul_time(shape, plain_gpu(), teraflops(1.0)) /
           matmul_time({.m = 1000, .n = 1000, .k = 1000}, plain_gpu(), teraflops(1.0));
  };
  EXPECT_DOUBLE_EQ(slower({.m = 1001, .n = 1000, .k = 1000}), 1.0);
  EXPECT_DOUBLE_EQ(slower({.m = 1000, .n = 1001, .k = 1000}), 2.0);
  EXPECT_DOUBLE_EQ(slower({.m = 1001, .n = 1001, .k = 1000}), 2.0);
  EXPECT_NEAR(slower({.m = 1000, .n = 1000, .k = 1001}), 2.0, 0.01);
  EXPECT_NEAR(slower({.m = 1000, .n = 1000, .k = 1001, .adds_over_tokens = true}), 1.0, 0.01);
  EXPECT_DOUBLE_EQ(slower({.m = 1001, .n = 1000, .k = 1000, .adds_over_tokens = true}), 2.0);
}

// By hand: a limit of power leaves half of the rate, and a start comes on top.
TEST(MatmulTime, IsThatOfASustainedRateBehindAStart) {
  GpuSpec gpu = plain_gpu();
  const MatmulShape shape{.m = 1024, .n = 1024, .k = 1024};
  gpu.matmul_sustained = 0.5;
  gpu.matmul_start = microseconds(3.0);
  EXPECT_DOUBLE_EQ(matmul_time(shape, gpu, teraflops(1.0)).value(),
                   3e-6 + 2.0 * 1024 * 1024 * 1024 / 0.5e12);
}

// By hand, on a GPU of 2 TFLOP/s in 8 bits and 4 in 4: half of that with 24 steps to start a tile.
TEST(LowBitMatmulTime, TakesTheConstantsOfItsFormat) {
  GpuSpec gpu = plain_gpu();
  gpu.matmul_sustained = 0.5;
  gpu.peak_fp8 = teraflops(2.0);
  gpu.peak_fp4 = teraflops(4.0);
  const MatmulShape shape{.m = 1024, .n = 1024, .k = 1000, .element_bytes = 1.0};
  const double step = 2.0 * 1024 * 1024 / 1e12;
  // Without an entry: 16 bits over the higher peak, or the efficiency of 8 bits.
  EXPECT_DOUBLE_EQ(low_bit_matmul_time(shape, gpu, LowBitFormat::kFp8).value(), step * 1000);
  gpu.fp8_matmul_efficiency = 0.25;
  EXPECT_DOUBLE_EQ(low_bit_matmul_time(shape, gpu, LowBitFormat::kFp8).value(), step * 4000);
  gpu.low_bit_products = {{.format = LowBitFormat::kFp8,
                           .efficiency = 0.5,
                           .startup_depth = 24.0,
                           .start = microseconds(1.0)}};
  EXPECT_DOUBLE_EQ(low_bit_matmul_time(shape, gpu, LowBitFormat::kFp8).value(),
                   1e-6 + 2.0 * step * 1024);
  // A format without an entry follows that of fp8, 4 bits over their own peak.
  EXPECT_DOUBLE_EQ(low_bit_matmul_time(shape, gpu, LowBitFormat::kFp8Mx).value(),
                   1e-6 + 2.0 * step * 1024);
  EXPECT_DOUBLE_EQ(low_bit_matmul_time(shape, gpu, LowBitFormat::kNvfp4).value(),
                   1e-6 + step * 1024);
  EXPECT_DOUBLE_EQ(low_bit_rate(gpu, LowBitFormat::kFp8).value(), 0.5e12);
  gpu.low_bit_products.front().sustained = 0.8;
  EXPECT_DOUBLE_EQ(low_bit_rate(gpu, LowBitFormat::kFp8).value(), 0.8e12);
}

// Heads of 108: NVIDIA's data sheet of the A100 has 19.5 TFLOP/s of fp32 beside 312 of fp16.
TEST(MatmulTime, OfBatchesOffTheGridIsThatOfTheCudaCores) {
  const auto time = [](std::int64_t k) {
    return matmul_time({.m = 1024, .n = 1024, .k = k, .batch = 2}, plain_gpu(), teraflops(1.0));
  };
  EXPECT_NEAR(time(1001) / time(1000), 16.0, 0.1);
}

TEST(MatmulTime, OfBatchesOfNarrowHeadsIsThreefold) {
  const auto time = [](std::int64_t k, std::int64_t batch) {
    return matmul_time({.m = 1024, .n = 1024, .k = k, .batch = batch}, plain_gpu(), teraflops(1.0));
  };
  EXPECT_DOUBLE_EQ(time(56, 2) / time(56, 1), 6.0);
  EXPECT_DOUBLE_EQ(time(64, 2) / time(64, 1), 2.0);
}

// 17 rows are in blocks of 32, 33 columns in 36: 2·3 blocks of 16·12, partly empty, and
// 100 + 20 steps each, whatever multiples of 8 there are.
TEST(MatmulTime, OfAProcessorCountsItsOwnBlocks) {
  GpuSpec core = plain_gpu();
  core.num_multiprocessors = 1;
  core.matmul_startup_depth = 20.0;
  core.matmul_output_depth = 0.0;
  core.matmul_tile = MatmulTile{.rows = 16, .columns = 12};
  const Seconds time = matmul_time({.m = 17, .n = 33, .k = 100}, core, teraflops(0.001));
  EXPECT_DOUBLE_EQ(time.value(), 6 * 2.0 * 16 * 12 * 120 / (core.matmul_efficiency * 1e9));
}

TEST(MatmulBytes, ReadTheResultOnlyWhenAccumulating) {
  const MatmulShape shape{.m = 2, .n = 3, .k = 5, .output_bytes = 4};
  EXPECT_EQ(matmul_bytes(shape), Bytes(2.0 * (10 + 15) + 6 * 4));
  MatmulShape accumulated = shape;
  accumulated.accumulate = true;
  EXPECT_EQ(matmul_bytes(accumulated), Bytes(2.0 * (10 + 15) + 2 * 6 * 4));
  accumulated.element_bytes = 8;
  EXPECT_EQ(matmul_bytes(accumulated), Bytes(8.0 * (10 + 15) + 2 * 6 * 4));
}

/// A measured product, and the error of its prediction: predicted / measured − 1.
struct MeasuredProduct {
  Seconds measured;
  double error = 0.0;
};

std::vector<MeasuredProduct> measured_products(const std::string& file, const GpuSpec& gpu) {
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/" + file);
  std::vector<MeasuredProduct> products;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto count = [&](const char* column) {
      return parse_count(table.text(row, column), 0, 1'000'000, table.place_of(row, column));
    };
    const MatmulShape shape{.m = count("m"),
                            .n = count("n"),
                            .k = count("k"),
                            .output_bytes = static_cast<int>(count("output_bytes")),
                            .accumulate = count("accumulate") == 1};
    const double rate = parse_number(table.text(row, "tflops"), 1.0, 4000.0, "tflops");
    const Seconds measured = matmul_flops(shape) / teraflops(rate);
    products.push_back({measured, matmul_time(shape, gpu, gpu.peak_bf16) / measured - 1.0});
  }
  return products;
}

/// Returns the errors of the products that were measured to take from `shortest` to `longest`.
std::vector<double> errors_between(const std::vector<MeasuredProduct>& products, Seconds shortest,
                                   Seconds longest) {
  std::vector<double> errors;
  for (const MeasuredProduct& product : products) {
    if (product.measured >= shortest && product.measured < longest) {
      errors.push_back(product.error);
    }
  }
  return errors;
}

constexpr Seconds kNone(0.0);
constexpr Seconds kForever(1e9);

// K_out and the sustained rate of the A100 come from these data, 0.79 of peak on this PCIe card
// with 1.6 TB/s achieved. The other constants come from an A100-SXM.
TEST(MatmulTime, FitsTheProductsMeasuredOnAnA100AsStated) {
  GpuSpec gpu = find_gpu("a100-80gb-sxm");
  gpu.matmul_efficiency = 0.79;
  gpu.matmul_sustained = 1.0;
  gpu.memory_bandwidth = gigabytes_per_second(1600.0);
  gpu.matmul_memory_efficiency = 1.0;
  const std::vector<MeasuredProduct> products = measured_products("gemm_a100_pcie.csv", gpu);
  const ErrorSummary all = summarized(errors_between(products, kNone, kForever));
  EXPECT_EQ(all.count, 183);
  EXPECT_LT(all.mean_absolute, 0.039);
  EXPECT_LT(all.max_absolute, 0.30);
  EXPECT_LT(std::abs(all.bias), 0.01);
  const ErrorSummary longer = summarized(errors_between(products, Seconds(1e-3), kForever));
  EXPECT_EQ(longer.count, 117);
  EXPECT_LT(longer.mean_absolute, 0.016);
  EXPECT_LT(longer.max_absolute, 0.06);
}

// The sustained rate of the B200 comes from these data. Short products ran faster than long ones,
// at full clocks as the profile has it, and those between ran either way.
TEST(MatmulTime, FitsTheLongProductsMeasuredOnAB200AsStated) {
  const std::vector<MeasuredProduct> products =
      measured_products("gemm_b200.csv", find_gpu("b200-180gb-sxm"));
  const ErrorSummary all = summarized(errors_between(products, kNone, kForever));
  EXPECT_EQ(all.count, 514);
  EXPECT_LT(all.mean_absolute, 0.12);
  const ErrorSummary longer = summarized(errors_between(products, Seconds(0.8e-3), kForever));
  EXPECT_EQ(longer.count, 274);
  EXPECT_LT(longer.mean_absolute, 0.035);
  EXPECT_LT(longer.max_absolute, 0.23);
  EXPECT_LT(std::abs(longer.bias), 0.01);
  const ErrorSummary bursts = summarized(errors_between(products, Seconds(30e-6), Seconds(100e-6)));
  EXPECT_GT(bursts.bias, 0.15);
  EXPECT_LT(bursts.bias, 0.25);
}

// NVIDIA's figure of square fp16 products on an A100, as reproduced by ml-engineering
// (compute/accelerator), read off to +-4 TFLOP/s. Nothing was fitted to it. Large squares run
// faster there than the largest of ml-engineering's own searches (271 TFLOP/s).
TEST(MatmulTime, IsThatOfSquareProductsOnAnA100) {
  const GpuSpec gpu = find_gpu("a100-80gb-sxm");
  struct Row {
    std::int64_t size;
    double tflops;
  };
  std::vector<double> errors;
  for (const Row& row :
       {Row{512, 28}, Row{768, 65}, Row{1024, 89}, Row{1280, 152}, Row{1536, 150}, Row{1792, 202},
        Row{2048, 195}, Row{2304, 244}, Row{2560, 230}, Row{3072, 235}, Row{3584, 243},
        Row{4096, 259}, Row{4608, 275}, Row{5120, 261}, Row{5632, 282}, Row{6144, 277},
        Row{7168, 281}, Row{8192, 292}}) {
    const MatmulShape shape{.m = row.size, .n = row.size, .k = row.size};
    const double rate =
        matmul_flops(shape).value() / matmul_time(shape, gpu, teraflops(312.0)).value() / kTera;
    errors.push_back(rate / row.tflops - 1.0);
    EXPECT_LT(rate, 271.2) << row.size;
  }
  EXPECT_LT(summarized(errors).mean_absolute, 0.105);
  EXPECT_LT(summarized(errors).max_absolute, 0.24);
}

}  // namespace
}  // namespace ptdp
