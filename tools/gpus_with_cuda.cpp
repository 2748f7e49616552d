#include <stdexcept>

#include "cost_model/error.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/gpu_monitor.h"
#include "tools/gpus.h"

namespace ptdp {
namespace {

/// "13.0" of 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

bool has_cuda() {
  return true;
}

std::vector<Gpu> usable_gpus() {
  std::vector<Gpu> gpus;
  try {
    for (int device = 0; device < num_cuda_devices(); ++device) {
      const CudaDevice found = describe_cuda_device(device);
      gpus.push_back({.name = found.name,
                      .memory = Bytes(static_cast<double>(found.memory_bytes)),
                      .num_multiprocessors = found.num_multiprocessors,
                      .software = "driver for CUDA " + version_text(found.driver_version) +
                                  ", CUDA " + version_text(found.runtime_version)});
    }
  } catch (const std::runtime_error& error) {
    throw Error(std::string("GPU ") + std::to_string(gpus.size()) + ": " + error.what(),
                ExitStatus::kRuntimeFault);
  }
  return gpus;
}

std::unique_ptr<Backend> make_gpu_backend(const GpuUse& use) {
  try {
    return make_cuda_backend({.device = use.gpu,
                              .is_deterministic = use.is_deterministic,
                              .uses_graphs = use.uses_graphs});
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Error("GPU " + std::to_string(use.gpu) + ": " + error.what(), ExitStatus::kRuntimeFault);
  }
}

std::function<std::vector<DeviceSample>()> watch_gpu(int gpu) {
  const auto monitor = std::make_shared<GpuMonitor>(describe_cuda_device(gpu).pci_bus_id);
  return [monitor] { return monitor->take(); };
}

}  // namespace ptdp
