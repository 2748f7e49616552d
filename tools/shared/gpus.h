// The GPUs of this machine as CUDA reports them. A build without CUDA finds none
// (gpus_with_cuda.cpp, gpus_without_cuda.cpp).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cost_model/text/named_values.h"
#include "cost_model/units.h"
#include "kernels/backend.h"
#include "kernels/device_sample.h"

namespace ptdp {

/// The device that a program computes on, as --device names it.
enum class DeviceKind { kCpu, kCuda };
inline constexpr std::array kDeviceNames = {NamedValue<DeviceKind>{DeviceKind::kCpu, "cpu"},
                                            NamedValue<DeviceKind>{DeviceKind::kCuda, "cuda"}};

/// A GPU as its driver describes it.
struct Gpu {
  std::string name;
  Bytes memory;
  int num_multiprocessors = 0;
  std::string software;  ///< Driver and runtime versions: "driver for CUDA 13.0, CUDA 13.0".
  int number = 0;        ///< Device number that CUDA uses.
};

/// How a rank uses a GPU.
struct GpuUse {
  int number = 0;  ///< Gpu::number of one of usable_gpus().
  bool is_deterministic = false;
  bool uses_graphs = false;
  /// Receives notes for the user; see CudaOptions::on_note.
  std::function<void(const std::string&)> on_note = {};
};

/// Whether this program was built with CUDA.
[[nodiscard]] bool has_cuda();

/// Returns the GPUs that this program can use: those of compute capability 8.0 or later. Empty
/// without a driver or in a build without CUDA. Throws Error(kRuntimeFault) when a GPU does not
/// answer.
[[nodiscard]] std::vector<Gpu> usable_gpus();

/// Makes the backend with which one rank uses a GPU. Throws Error(kRuntimeFault) for a fault of the
/// GPU, and OutOfMemory.
[[nodiscard]] std::unique_ptr<Backend> make_gpu_backend(const GpuUse& use);

/// Starts sampling a GPU's clocks and power, until the last copy of the returned function is gone.
/// Each call of that function returns the samples since the call before. It returns none without
/// the GPU management library.
[[nodiscard]] std::function<std::vector<DeviceSample>()> watch_gpu(int number);

}  // namespace ptdp
