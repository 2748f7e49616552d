// Matrix products that others published, on GPUs described from their data sheets.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "cost_model/operations/gemm.h"
#include "cost_model/text/csv_table.h"
#include "tests/validation/kernels/measured_kernels.h"

namespace ptdp {
namespace {

constexpr Seconds kPowerLimitActs(1e-3);   // in shorter products clocks have not fallen yet
constexpr std::int64_t kSmallSide = 2048;  // up to it starts matter, in which libraries differ

std::map<std::string, std::vector<MeasuredKernel>> published_products() {
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/products_published.csv");
  std::map<std::string, std::vector<MeasuredKernel>> products;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    const auto count = [&](const char* column) { return std::stoll(table.text(row, column)); };
    MeasuredKernel kernel{.m = count("m"), .n = count("n"), .k = count("k")};
    const double flops = 2.0 * static_cast<double>(kernel.m) * static_cast<double>(kernel.n) *
                         static_cast<double>(kernel.k);
    kernel.time = Seconds(flops / (std::stod(table.text(row, "tflops")) * kTera));
    products[table.text(row, "gpu")].push_back(kernel);
  }
  return products;
}

Seconds modeled_time(const MeasuredKernel& kernel, const std::string& gpu) {
  const GpuSpec spec = kernel.time < kPowerLimitActs ? gpu_at_full_clocks(gpu) : find_gpu(gpu);
  return matmul_time({.m = kernel.m, .n = kernel.n, .k = kernel.k}, spec, spec.peak_bf16);
}

TEST(PublishedProducts, AreWithinAFifthOfTheirTime) {
  const auto all = published_products();
  EXPECT_EQ(all.size(), 8U);
  for (const auto& [gpu, products] : all) {
    const auto model = [&, name = gpu](const MeasuredKernel& kernel) {
      return modeled_time(kernel, name);
    };
    const KernelErrors errors = errors_on(products, model);
    std::cout << gpu << ": " << errors << " % of " << products.size() << '\n';
    EXPECT_LT(errors.median, 0.12) << gpu;
    for (const MeasuredKernel& kernel : products) {
      if (std::min({kernel.m, kernel.n, kernel.k}) > kSmallSide) {
        EXPECT_NEAR(model(kernel) / kernel.time, 1.0, 0.2)
            << gpu << ' ' << kernel.m << ' ' << kernel.n << ' ' << kernel.k;
      }
    }
  }
}

}  // namespace
}  // namespace ptdp
