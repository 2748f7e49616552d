// Kernels that others measured on single operations, and fits of constants to them.
#pragma once

#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/units.h"

namespace ptdp {

/// A row of tests/golden/kernels_measured.csv. Sizes that the operation does not have are 0.
struct MeasuredKernel {
  std::int64_t m = 0;  ///< Tokens of a product, rows of a cast.
  std::int64_t n = 0;  ///< Outputs of a product.
  std::int64_t k = 0;  ///< Inputs of a product, columns of a cast.
  std::int64_t batch = 0;
  std::int64_t seq = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;
  Bytes bytes;  ///< Buffer of a collective, as nccl-tests counts it.
  std::int64_t num_gpus = 0;
  Seconds time;
};

/// Returns the rows of a system ("h100_sxm"), an engine ("trtllm", "vllm", "nccl"), an operation
/// ("gemm") and a type ("bf16"). Fails the running test if there are none.
[[nodiscard]] std::vector<MeasuredKernel> measured_kernels(const std::string& system,
                                                           const std::string& engine,
                                                           const std::string& operation,
                                                           const std::string& type);

/// Returns a shipped GPU at full clocks: its products are not slowed by a limit of power. Throws
/// Error as find_gpu() does.
[[nodiscard]] GpuSpec gpu_at_full_clocks(const std::string& name);

/// Median and 90th percentile of absolute errors, and the median error; predicted / measured − 1.
struct KernelErrors {
  double median = 0.0;
  double p90 = 0.0;
  double bias = 0.0;
};
std::ostream& operator<<(std::ostream& out, const KernelErrors& errors);

/// Predicts the time of a kernel.
using KernelTime = std::function<Seconds(const MeasuredKernel&)>;

/// Returns the errors of `predict` on `kernels`.
[[nodiscard]] KernelErrors errors_on(const std::vector<MeasuredKernel>& kernels,
                                     const KernelTime& predict);

/// A constant that is fitted: where it is kept, as a profile has it, and its largest value.
struct FittedConstant {
  std::string name;
  double* value = nullptr;
  double largest = 1.0;
};

/// Expects that a fit to `kernels` finds the `constants` as they are, within 1 % (a 0 within 1e-4
/// of its largest value), where `predict` reads them, and puts them back. It takes the best of 16
/// searches that start up to 25 % away. It minimizes the mean of √(e² + 0.05²), where e is the
/// logarithm of predicted over measured: some rows are far off, for other reasons.
void expect_refitted(const std::vector<MeasuredKernel>& kernels, const KernelTime& predict,
                     const std::vector<FittedConstant>& constants);

}  // namespace ptdp
