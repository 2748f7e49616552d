#include "cost_model/analytic/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "cost_model/calibration/calibration.h"
#include "cost_model/spec/catalog.h"
#include "cost_model/spec/csv_table.h"

namespace ptdp {
namespace {

/// A GPU on which the formula can be done by hand: four multiprocessors and no start-up.
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

TEST(MatmulTime, GrowsInStepsOfAWave) {
  const auto time = [](std::int64_t m) {
    return matmul_time({.m = m, .n = 128, .k = 64}, plain_gpu(), teraflops(1.0)).value();
  };
  EXPECT_DOUBLE_EQ(time(776), time(1024));         // four tiles of 256×128 either way
  EXPECT_DOUBLE_EQ(time(1032), 2.0 * time(1024));  // a fifth tile opens a second wave
}

TEST(MatmulTime, SplitsTheInnerDimensionWhereTilesAreFew) {
  // One tile: split in four, every multiprocessor has a quarter of the inner dimension.
  const MatmulShape shape{.m = 256, .n = 128, .k = 4096};
  EXPECT_DOUBLE_EQ(matmul_time(shape, plain_gpu(), teraflops(1.0)).value(),
                   2.0 * 256 * 128 * 4096 / 1e12);
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

TEST(MatmulBytes, ReadTheResultOnlyWhenAccumulating) {
  const MatmulShape shape{.m = 2, .n = 3, .k = 5, .output_bytes = 4};
  EXPECT_EQ(matmul_bytes(shape), Bytes(2.0 * (10 + 15) + 6 * 4));
  MatmulShape accumulated = shape;
  accumulated.accumulate = true;
  EXPECT_EQ(matmul_bytes(accumulated), Bytes(2.0 * (10 + 15) + 2 * 6 * 4));
}

// The data the constants were fitted to (tests/golden/README.md): this pins the fit's quality, it
// does not validate it. The card is a PCIe one: 1.6 TB/s achieved, and 0.768 of peak.
TEST(MatmulTime, FitsTheMeasuredProductsAsStated) {
  GpuSpec gpu = find_gpu("a100-80gb-sxm");
  gpu.matmul_efficiency = 0.768;
  gpu.memory_bandwidth = gigabytes_per_second(1600.0);
  gpu.matmul_memory_efficiency = 1.0;
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/gemm_a100_pcie.csv");
  std::vector<double> errors;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto count = [&](const char* column) {
      return parse_count(table.text(row, column), 0, 1'000'000, table.place_of(row, column));
    };
    const bool is_accumulated = count("accumulate") == 1;
    const MatmulShape shape{.m = count("m"),
                            .n = count("n"),
                            .k = count("k"),
                            .output_bytes = is_accumulated ? 4 : 2,
                            .accumulate = is_accumulated};
    const double measured = parse_number(table.text(row, "tflops"), 1.0, 400.0, "tflops");
    const Seconds time = matmul_time(shape, gpu, teraflops(312.0));
    errors.push_back(time.value() / (matmul_flops(shape).value() / (measured * kTera)) - 1.0);
  }
  const ErrorSummary summary = summarize(errors);
  EXPECT_EQ(summary.count, 183);
  EXPECT_LT(summary.mean_absolute, 0.045);
  EXPECT_LT(summary.max_absolute, 0.29);
  EXPECT_LT(std::abs(summary.bias), 0.01);
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
  for (const Row& row : {Row{512, 28}, Row{768, 65}, Row{1280, 152}, Row{1536, 150}, Row{1792, 202},
                         Row{2048, 195}, Row{2304, 244}, Row{2560, 230}, Row{3072, 235},
                         Row{4096, 259}, Row{5120, 261}, Row{6144, 277}, Row{8192, 292}}) {
    const MatmulShape shape{.m = row.size, .n = row.size, .k = row.size};
    const double rate =
        matmul_flops(shape).value() / matmul_time(shape, gpu, teraflops(312.0)).value() / kTera;
    errors.push_back(rate / row.tflops - 1.0);
    EXPECT_LT(rate, 271.2) << row.size;
  }
  EXPECT_LT(summarize(errors).mean_absolute, 0.13);
  EXPECT_LT(summarize(errors).max_absolute, 0.31);
}

}  // namespace
}  // namespace ptdp
