#include "runtime/profiling/gpu_fit.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cost_model/layer/element_wise.h"
#include "cost_model/operations/attention.h"
#include "cost_model/operations/gemm.h"

namespace ptdp {
namespace {

constexpr double kDeepestStartup = 1000.0;

/// Kinds of operations with a factor of their own.
enum class Kind : std::uint8_t { kMatmul, kAttention, kMemoryBound, kOptimizer };

Kind kind_of(DeviceOperation operation) {
  if (operation == DeviceOperation::kAddSquares || operation == DeviceOperation::kAdamW) {
    return Kind::kOptimizer;
  }
  switch (size_names(operation).front()[0]) {
    case 'm':
      return Kind::kMatmul;
    case 'h':
      return Kind::kAttention;
    default:
      return Kind::kMemoryBound;
  }
}

/// Returns the FLOPs of a product of these sizes.
double flops_of_product(const OperationSizes& sizes) {
  return 2.0 * sizes[0] * sizes[1] * sizes[2];
}

/// Returns the FLOPs of attention: the causal half, and 2.5 times as many backward.
double flops_of_attention(DeviceOperation operation, const OperationSizes& sizes) {
  const bool is_backward = operation == DeviceOperation::kAttentionBackward ||
                           operation == DeviceOperation::kDropoutAttentionBackward;
  return (is_backward ? 2.5 : 1.0) * 2.0 * sizes[0] * sizes[1] * sizes[1] * sizes[2];
}

/// Returns ln(measured/modeled time) of every point of all products.
std::vector<double> product_residuals(const GpuSpec& gpu, Precision precision) {
  std::vector<double> residuals;
  const int bytes = element_bytes(precision);
  for (const MeasuredOperation& measured : gpu.measured_operations) {
    if (measured.precision() != precision || kind_of(measured.operation()) != Kind::kMatmul) {
      continue;
    }
    const bool accumulates = measured.operation() == DeviceOperation::kWeightGradientProduct;
    for (const MeasuredOperation::Point& point : measured.points()) {
      const MatmulShape shape = {.m = std::llround(point.sizes[0]),
                                 .n = std::llround(point.sizes[1]),
                                 .k = std::llround(point.sizes[2]),
                                 .element_bytes = 1.0 * bytes,
                                 .output_bytes = accumulates ? accumulator_bytes(precision) : bytes,
                                 .accumulate = accumulates,
                                 .adds_over_tokens = accumulates};
      residuals.push_back(std::log(point.time / matmul_time(shape, gpu, gpu.peak(precision))));
    }
  }
  return residuals;
}

/// Returns the mean of the values; 0 without any.
double mean(const std::vector<double>& values) {
  double sum = 0.0;
  for (const double value : values) {
    sum += value;
  }
  return values.empty() ? 0.0 : sum / static_cast<double>(values.size());
}

/// Returns the sum of squared deviations from the mean.
double squares_around_mean(const std::vector<double>& values) {
  const double middle = mean(values);
  double sum = 0.0;
  for (const double value : values) {
    sum += (value - middle) * (value - middle);
  }
  return sum;
}

/// Fits matmul_startup_depth by a search for the least squares, and matmul_efficiency by the mean.
/// The measured rate is the whole rate, of which nothing is lost in a step.
void fit_products(GpuSpec& gpu, Precision precision) {
  for (LowBitProducts& products : gpu.low_bit_products) {
    products.sustained = products.sustained.value_or(gpu.matmul_sustained);
  }
  gpu.matmul_sustained = 1.0;
  gpu.matmul_efficiency = 1.0;
  gpu.matmul_memory_efficiency = 1.0;
  double best_depth = 0.0;
  double least = std::numeric_limits<double>::infinity();
  constexpr double growth = 1.1;
  const int num_depths = static_cast<int>(std::ceil(std::log(kDeepestStartup) / std::log(growth)));
  for (int i = 0; i < num_depths; ++i) {
    const double depth = std::pow(growth, i);
    gpu.matmul_startup_depth = depth;
    const double squares = squares_around_mean(product_residuals(gpu, precision));
    if (squares < least) {
      least = squares;
      best_depth = depth;
    }
  }
  gpu.matmul_startup_depth = best_depth;
  gpu.matmul_efficiency = std::clamp(std::exp(-mean(product_residuals(gpu, precision))), 0.01, 1.0);
}

/// The two passes of attention.
struct AttentionPasses {
  DeviceOperation forward;
  DeviceOperation backward;
};

/// Replaces the rates of attention `kernel` by geometric means of those measured of `passes`.
/// Returns false when none were measured.
bool fit_attention(GpuSpec& gpu, Precision precision, const AttentionPasses& passes,
                   const std::string& kernel) {
  std::vector<double> forward;
  std::vector<double> backward;
  for (const MeasuredOperation& measured : gpu.measured_operations) {
    const bool is_backward = measured.operation() == passes.backward;
    if (measured.precision() != precision ||
        (measured.operation() != passes.forward && !is_backward)) {
      continue;
    }
    for (const MeasuredOperation::Point& point : measured.points()) {
      (is_backward ? backward : forward)
          .push_back(std::log(flops_of_attention(measured.operation(), point.sizes) /
                              point.time.value() / gpu.peak(precision).value()));
    }
  }
  if (forward.empty() || backward.empty()) {
    return false;
  }
  const auto rate = [](const std::vector<double>& rates) {
    return std::clamp(std::exp(mean(rates)), 1e-4, 1.0);
  };
  std::erase_if(gpu.attention_rates,
                [&](const AttentionRate& entry) { return entry.kernel == kernel; });
  gpu.attention_rates.push_back(
      {.kernel = kernel, .forward = rate(forward), .backward = rate(backward)});
  return true;
}

/// Fits memory_efficiency by the geometric mean over operations that memory limits.
void fit_element_wise(GpuSpec& gpu, Precision precision) {
  gpu.memory_efficiency = 1.0;
  GpuSpec unmeasured = gpu;
  unmeasured.measured_operations.clear();
  std::vector<double> residuals;
  for (const MeasuredOperation& measured : gpu.measured_operations) {
    if (measured.precision() != precision || kind_of(measured.operation()) != Kind::kMemoryBound) {
      continue;
    }
    for (const MeasuredOperation::Point& point : measured.points()) {
      residuals.push_back(
          std::log(point.time / element_wise_time(measured.operation(), point.sizes[0],
                                                  point.sizes[1], unmeasured, precision)));
    }
  }
  gpu.memory_efficiency = std::clamp(std::exp(-mean(residuals)), 0.01, 1.0);
}

FlopsPerSecond& peak_of(GpuSpec& gpu, Precision precision) {
  switch (precision) {
    case Precision::kFp16:
      return gpu.peak_fp16;
    case Precision::kBf16:
      return gpu.peak_bf16;
    case Precision::kFp32:
      return gpu.peak_fp32;
    case Precision::kTf32:
      return gpu.peak_tf32;
    case Precision::kFp64:
      return gpu.peak_fp64;
  }
  return gpu.peak_fp32;
}

}  // namespace

std::vector<MeasuredOperation> measured_operations(const OperationTimes& times,
                                                   Precision precision) {
  std::map<DeviceOperation, std::vector<MeasuredOperation::Point>> points;
  for (const auto& [key, seconds] : times) {
    points[key.first].push_back({.sizes = key.second, .time = Seconds(seconds)});
  }
  std::vector<MeasuredOperation> tables;
  for (auto& [operation, of] : points) {
    if (of.size() >= 2) {
      tables.emplace_back(operation, precision, std::move(of),
                          "measured " + std::string(name_of(operation)));
    }
  }
  return tables;
}

void raise_peak(GpuSpec& gpu, Precision precision, FlopsPerSecond rate) {
  FlopsPerSecond& peak = peak_of(gpu, precision);
  peak = std::max(peak, rate);
}

void fit_constants(GpuSpec& gpu, Precision precision, const std::string& kernel) {
  for (const MeasuredOperation& measured : gpu.measured_operations) {
    if (kind_of(measured.operation()) == Kind::kMatmul) {
      for (const MeasuredOperation::Point& point : measured.points()) {
        raise_peak(gpu, measured.precision(),
                   FlopsPerSecond(flops_of_product(point.sizes) / point.time.value()));
      }
    }
  }
  fit_products(gpu, precision);
  constexpr AttentionPasses plain = {DeviceOperation::kAttention,
                                     DeviceOperation::kAttentionBackward};
  constexpr AttentionPasses dropping = {DeviceOperation::kDropoutAttention,
                                        DeviceOperation::kDropoutAttentionBackward};
  const bool is_measured = fit_attention(gpu, precision, plain, kernel);
  if (fit_attention(gpu, precision, dropping, kernel + std::string(kWithDropout)) && !is_measured) {
    fit_attention(gpu, precision, dropping, kernel);  // Short measurements have no other.
  }
  fit_element_wise(gpu, precision);
}

BusyCores factors_between(const OperationTimes& times, const OperationTimes& base) {
  std::array<double, 4> sums{};
  std::array<double, 4> base_sums{};
  for (const auto& [key, seconds] : times) {
    if (const auto found = base.find(key); found != base.end()) {
      const auto kind = static_cast<std::size_t>(kind_of(key.first));
      sums[kind] += seconds;
      base_sums[kind] += found->second;
    }
  }
  const auto factor = [&](Kind kind) {
    const auto index = static_cast<std::size_t>(kind);
    return base_sums[index] > 0.0 ? sums[index] / base_sums[index] : 1.0;
  };
  return {.matmul = factor(Kind::kMatmul),
          .attention = factor(Kind::kAttention),
          .memory_bound = factor(Kind::kMemoryBound),
          .optimizer = factor(Kind::kOptimizer)};
}

}  // namespace ptdp
