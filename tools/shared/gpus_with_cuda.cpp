// The GPUs of this machine, in a build with CUDA.
#include <stdexcept>

#include "cost_model/error.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/gpu_monitor.h"
#include "tools/shared/gpus.h"

namespace ptdp {
namespace {

/// Returns the text of a CUDA version number: "13.0" for 13000.
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Calls `call` and turns a CUDA fault into an Error(kRuntimeFault) that names the GPU. Lets
/// OutOfMemory pass.
template <class Call>
auto of_gpu(int number, const Call& call) {
  try {
    return call();
  } catch (const OutOfMemory&) {
    throw;
  } catch (const std::runtime_error& error) {
    throw Error("GPU " + std::to_string(number) + ": " + error.what(), ExitStatus::kRuntimeFault);
  }
}

}  // namespace

bool has_cuda() {
  return true;
}

std::vector<Gpu> usable_gpus() {
  constexpr int ampere = 80;  // the oldest architecture with machine code
  std::vector<Gpu> gpus;
  const int count = of_gpu(0, [] { return num_cuda_devices(); });
  for (int number = 0; number < count; ++number) {
    const CudaDevice found = of_gpu(number, [=] { return describe_cuda_device(number); });
    if (found.compute_capability >= ampere) {
      gpus.push_back({.name = found.name,
                      .memory = Bytes(static_cast<double>(found.memory_bytes)),
                      .num_multiprocessors = found.num_multiprocessors,
                      .software = "driver for CUDA " + version_text(found.driver_version) +
                                  ", CUDA " + version_text(found.runtime_version),
                      .number = number});
    }
  }
  return gpus;
}

std::unique_ptr<Backend> make_gpu_backend(const GpuUse& use) {
  return of_gpu(use.number, [&] {
    return make_cuda_backend({.device = use.number,
                              .is_deterministic = use.is_deterministic,
                              .uses_graphs = use.uses_graphs,
                              .on_note = use.on_note});
  });
}

std::function<std::vector<DeviceSample>()> watch_gpu(int number) {
  const std::string address =
      of_gpu(number, [=] { return describe_cuda_device(number).pci_bus_id; });
  const auto monitor = std::make_shared<GpuMonitor>(address);
  return [monitor] { return monitor->take(); };
}

}  // namespace ptdp
