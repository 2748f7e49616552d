// Watches clocks, power and temperature of a GPU while it works, by NVIDIA's management library
// (NVML).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device_sample.h"

namespace ptdp {

/// Samples a GPU from a thread of its own, about fifty times a second. It takes no samples when the
/// library or the GPU is not found.
class GpuMonitor {
 public:
  /// Watches the GPU at bus address `pci_bus_id`, written as CUDA does: "0000:1b:00.0".
  explicit GpuMonitor(const std::string& pci_bus_id,
                      const std::string& library = "libnvidia-ml.so.1");
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;
  GpuMonitor(GpuMonitor&&) = delete;
  GpuMonitor& operator=(GpuMonitor&&) = delete;
  ~GpuMonitor();

  /// Returns whether samples are taken.
  [[nodiscard]] bool is_watching() const { return thread_.joinable(); }
  /// Returns what was sampled since the last call. Any thread may call it.
  [[nodiscard]] std::vector<DeviceSample> take();

 private:
  class Nvml;
  /// Runs the sampling thread.
  void watch();

  std::unique_ptr<Nvml> nvml_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::vector<DeviceSample> samples_;
  std::thread thread_;
};

}  // namespace ptdp
