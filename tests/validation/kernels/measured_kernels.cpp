#include "tests/validation/kernels/measured_kernels.h"

#include <gtest/gtest.h>
#include <nlopt.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <limits>
#include <memory>

#include "cost_model/measured/quantile.h"
#include "cost_model/text/csv_table.h"

namespace ptdp {
namespace {

constexpr double kSmallError = 0.05;
constexpr int kStarts = 16;

/// What a fit minimizes: `kernels` and `predict` of errors_on(), and where its constants are.
struct Fit {
  const std::vector<MeasuredKernel>& kernels;
  const KernelTime& predict;
  const std::vector<FittedConstant>& constants;
};

double loss_of(unsigned size, const double* values, double* /*gradient*/, void* data) {
  const Fit& fit = *static_cast<const Fit*>(data);
  for (unsigned i = 0; i < size; ++i) {
    *fit.constants[i].value = values[i];
  }
  double sum = 0.0;
  for (const MeasuredKernel& kernel : fit.kernels) {
    sum += std::hypot(std::log(fit.predict(kernel) / kernel.time), kSmallError);
  }
  return sum / static_cast<double>(fit.kernels.size());
}

}  // namespace

std::vector<MeasuredKernel> measured_kernels(const std::string& system, const std::string& engine,
                                             const std::string& operation,
                                             const std::string& type) {
  static const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/kernels_measured.csv");
  std::vector<MeasuredKernel> kernels;
  for (std::size_t row = 0; row < table.num_rows(); ++row) {
    if (table.text(row, "system") != system || table.text(row, "engine") != engine ||
        table.text(row, "op") != operation || table.text(row, "dtype") != type) {
      continue;
    }
    const auto count = [&](const char* column) {
      const std::string text = table.text(row, column);
      return text.empty() ? 0 : parse_count(text, 1, 1'000'000'000, table.place_of(row, column));
    };
    kernels.push_back({.m = count("m"),
                       .n = count("n"),
                       .k = count("k"),
                       .batch = count("batch"),
                       .seq = count("seq"),
                       .heads = count("heads"),
                       .kv_heads = count("kv_heads"),
                       .head_dim = count("head_dim"),
                       .bytes = Bytes(static_cast<double>(count("bytes"))),
                       .num_gpus = count("n_gpus"),
                       .time = microseconds(parse_number(table.text(row, "microseconds"), 1e-3, 1e9,
                                                         table.place_of(row, "microseconds")))});
  }
  EXPECT_FALSE(kernels.empty()) << system << ' ' << engine << ' ' << operation << ' ' << type;
  return kernels;
}

GpuSpec gpu_at_full_clocks(const std::string& name) {
  GpuSpec gpu = find_gpu(name);
  gpu.matmul_sustained = 1.0;
  for (LowBitProducts& products : gpu.low_bit_products) {
    products.sustained = 1.0;
  }
  return gpu;
}

std::ostream& operator<<(std::ostream& out, const KernelErrors& errors) {
  return out << std::fixed << std::setprecision(1) << 100.0 * errors.median << " / "
             << 100.0 * errors.p90 << " / " << std::showpos << 100.0 * errors.bias
             << std::noshowpos;
}

KernelErrors errors_on(const std::vector<MeasuredKernel>& kernels, const KernelTime& predict) {
  std::vector<double> errors;
  std::vector<double> absolute;
  for (const MeasuredKernel& kernel : kernels) {
    errors.push_back(predict(kernel) / kernel.time - 1.0);
    absolute.push_back(std::abs(errors.back()));
  }
  return {.median = quantile(absolute, 0.5),
          .p90 = quantile(absolute, 0.9),
          .bias = quantile(errors, 0.5)};
}

void expect_refitted(const std::vector<MeasuredKernel>& kernels, const KernelTime& predict,
                     const std::vector<FittedConstant>& constants) {
  const std::size_t size = constants.size();
  std::vector<double> shipped;
  std::vector<double> largest;
  std::vector<double> steps;
  for (const FittedConstant& constant : constants) {
    shipped.push_back(*constant.value);
    largest.push_back(constant.largest);
    steps.push_back(0.1 * (*constant.value > 0.0 ? *constant.value : constant.largest));
  }
  const std::vector<double> smallest(size, 0.0);
  Fit fit{kernels, predict, constants};
  std::vector<double> best;
  double least = std::numeric_limits<double>::infinity();
  for (int start = 1; start <= kStarts; ++start) {
    std::vector<double> values;
    for (std::size_t i = 0; i < size; ++i) {
      const double spread = std::fmod(start * std::sqrt(2.0 + static_cast<double>(i)), 1.0);
      values.push_back(std::min((0.75 + 0.5 * spread) * shipped[i], largest[i]));
    }
    const std::unique_ptr<std::remove_pointer_t<nlopt_opt>, decltype(&nlopt_destroy)> optimizer(
        nlopt_create(NLOPT_LN_SBPLX, static_cast<unsigned>(size)), nlopt_destroy);
    nlopt_set_min_objective(optimizer.get(), loss_of, &fit);
    nlopt_set_lower_bounds(optimizer.get(), smallest.data());
    nlopt_set_upper_bounds(optimizer.get(), largest.data());
    EXPECT_EQ(nlopt_set_initial_step(optimizer.get(), steps.data()), NLOPT_SUCCESS);
    nlopt_set_xtol_rel(optimizer.get(), 1e-6);
    nlopt_set_maxeval(optimizer.get(), 5000);
    double loss = 0.0;
    EXPECT_GT(nlopt_optimize(optimizer.get(), values.data(), &loss), 0);
    if (loss < least) {
      least = loss;
      best = values;
    }
  }
  for (std::size_t i = 0; i < size; ++i) {
    EXPECT_NEAR(best[i], shipped[i], 0.01 * std::max(shipped[i], 0.01 * largest[i]))
        << constants[i].name;
    *constants[i].value = shipped[i];
  }
}

}  // namespace ptdp
