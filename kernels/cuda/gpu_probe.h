// Measures times of single operations on a GPU, as a training step runs them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace ptdp {

/// The GPU that measurements run on, and the software under it.
struct GpuDescription {
  std::string name;
  int num_multiprocessors = 0;
  std::int64_t memory_bytes = 0;
  int driver_version = 0;  ///< Newest CUDA version of the driver, 1000·major + 10·minor.
  /// CUDA version that this program was built with, 1000·major + 10·minor.
  int runtime_version = 0;
  int cublas_version = 0;
};

/// Returns the number of GPUs that can be used here; 0 without a driver.
[[nodiscard]] int num_gpus();

/// The three products of a linear layer, with x [tokens, inputs] and w [outputs, inputs].
enum class LinearProduct {
  kForward,         ///< y = x·wᵀ.
  kInputGradient,   ///< dx = dy·w.
  kWeightGradient,  ///< dw = dyᵀ·x.
};

/// Measures operations on the first GPU, which run in a row on one stream. Methods return the mean
/// time of one operation [s], between two events of the device. Operands are random and cycle
/// through the probe's memory, so that small ones do not stay in the cache. Every method throws
/// std::runtime_error with the failed call when CUDA or cuBLAS fails.
class GpuProbe {
 public:
  /// Takes `memory` bytes of the GPU for operands.
  explicit GpuProbe(std::int64_t memory);
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;
  ~GpuProbe();

  [[nodiscard]] const GpuDescription& gpu() const;

  /// Returns the time of a product of bf16 matrices by cuBLAS, accumulated in fp32 [s]. Its
  /// operands must fit into the memory.
  [[nodiscard]] double linear_seconds(LinearProduct product, std::int64_t tokens,
                                      std::int64_t outputs, std::int64_t inputs, int repeats);

  /// Returns the time of an element-wise kernel that reads two arrays and writes a third, `traffic`
  /// bytes in all [s].
  [[nodiscard]] double element_wise_seconds(std::int64_t traffic, int repeats);

  /// Returns the time of a copy within the GPU that reads and writes `traffic` bytes in all [s].
  [[nodiscard]] double copy_seconds(std::int64_t traffic, int repeats);

  /// Returns the time of an empty kernel behind another, the least that a kernel costs [s].
  [[nodiscard]] double empty_kernel_seconds(int repeats);

  /// Returns the time that the host, not the GPU, takes to launch a kernel [s].
  [[nodiscard]] double launch_host_seconds(int repeats);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp
