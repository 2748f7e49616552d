// The GPUs of this machine, in a build with CUDA; in one without it there are none
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

/// What a program computes on, as --device names it.
enum class DeviceKind { kCpu, kCuda };
inline constexpr std::array kDeviceNames = {NamedValue<DeviceKind>{DeviceKind::kCpu, "cpu"},
                                            NamedValue<DeviceKind>{DeviceKind::kCuda, "cuda"}};

/// What a GPU says of itself.
struct Gpu {
  std::string name;
  Bytes memory;
  int num_multiprocessors = 0;
  std::string software;  ///< "driver for CUDA 13.0, CUDA 13.0".
  int number = 0;        ///< CUDA's.
};

/// How a rank uses a GPU.
struct GpuUse {
  int number = 0;  ///< Of one of usable_gpus().
  bool is_deterministic = false;
  bool uses_graphs = false;
  std::function<void(const std::string&)> on_note = {};  ///< As CudaOptions::on_note.
};

/// Whether this program was built with CUDA.
[[nodiscard]] bool has_cuda();

/// Those that CUDA can use; none without a driver. Throws Error(kRuntimeFault) where one does not
/// answer.
[[nodiscard]] std::vector<Gpu> usable_gpus();

/// A rank's share of a GPU. Throws Error(kRuntimeFault), and OutOfMemory.
[[nodiscard]] std::unique_ptr<Backend> make_gpu_backend(const GpuUse& use);

/// Watches a GPU's clocks and power from now on, until the last copy of what it returns is gone:
/// that gives what was sampled since the last call, nothing where there is no management library.
[[nodiscard]] std::function<std::vector<DeviceSample>()> watch_gpu(int number);

}  // namespace ptdp
