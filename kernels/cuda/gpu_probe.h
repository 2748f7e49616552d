// Times of single operations on a GPU, as a training step runs them.
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
  int driver_version = 0;   ///< Newest CUDA of the driver, 1000·major + 10·minor.
  int runtime_version = 0;  ///< CUDA that this was built with.
  int cublas_version = 0;
};

/// GPUs that can be used here; 0 without a driver.
[[nodiscard]] int num_gpus();

/// The three products of a linear layer. With x of tokens × inputs and w of outputs × inputs:
enum class LinearProduct {
  kForward,         ///< y = x·wᵀ.
  kInputGradient,   ///< dx = dy·w.
  kWeightGradient,  ///< dw = dyᵀ·x.
};

/// Runs operations on the first GPU, in a row on one stream, and reports the mean seconds of one,
/// between two events of the device. Operands are random and cycle through the probe's memory, so
/// that small ones don't stay in the cache. Every method throws std::runtime_error, naming the
/// call, when CUDA or cuBLAS fails.
class GpuProbe {
 public:
  /// Takes `memory` [B] of the GPU for operands.
  explicit GpuProbe(std::int64_t memory);
  GpuProbe(const GpuProbe&) = delete;
  GpuProbe& operator=(const GpuProbe&) = delete;
  ~GpuProbe();

  [[nodiscard]] const GpuDescription& gpu() const;

  /// A product of bf16 matrices, accumulated in fp32, by cuBLAS. Its operands must fit the memory.
  [[nodiscard]] double linear_seconds(LinearProduct product, std::int64_t tokens,
                                      std::int64_t outputs, std::int64_t inputs, int repeats);

  /// An element-wise kernel that reads two arrays and writes a third, `traffic` [B] in all.
  [[nodiscard]] double element_wise_seconds(std::int64_t traffic, int repeats);

  /// A copy within the GPU that reads and writes `traffic` [B] in all.
  [[nodiscard]] double copy_seconds(std::int64_t traffic, int repeats);

  /// An empty kernel behind another: what a kernel costs at least.
  [[nodiscard]] double empty_kernel_seconds(int repeats);

  /// Time of the host, not of the GPU, to launch a kernel.
  [[nodiscard]] double launch_host_seconds(int repeats);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp
