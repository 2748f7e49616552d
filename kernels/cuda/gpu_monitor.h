// Clocks, power and temperature of a GPU while it works, by NVIDIA's management library.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device_sample.h"

namespace ptdp {

/// Watches a GPU from a thread of its own, some fifty times a second. Where the library or the GPU
/// is not to be found it has no samples.
class GpuMonitor {
 public:
  /// `pci_bus_id` as CUDA writes it: "0000:1b:00.0".
  explicit GpuMonitor(const std::string& pci_bus_id,
                      const std::string& library = "libnvidia-ml.so.1");
  GpuMonitor(const GpuMonitor&) = delete;
  GpuMonitor& operator=(const GpuMonitor&) = delete;
  GpuMonitor(GpuMonitor&&) = delete;
  GpuMonitor& operator=(GpuMonitor&&) = delete;
  ~GpuMonitor();

  [[nodiscard]] bool is_watching() const { return thread_.joinable(); }
  /// What was sampled since the last call. Of any thread.
  [[nodiscard]] std::vector<DeviceSample> take();

 private:
  class Nvml;
  void watch();

  std::unique_ptr<Nvml> nvml_;
  std::mutex mutex_;
  std::condition_variable ended_;
  bool is_ended_ = false;
  std::vector<DeviceSample> samples_;
  std::thread thread_;
};

}  // namespace ptdp
