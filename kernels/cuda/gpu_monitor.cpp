// Samples a GPU by NVML, which is loaded when it is needed.
#include "kernels/cuda/gpu_monitor.h"

#include <dlfcn.h>

#include <chrono>
#include <system_error>
#include <utility>

namespace ptdp {
namespace {

constexpr std::chrono::milliseconds kPeriod{20};  ///< Pause between samples.

// The part of NVML's interface that is used here. The library comes with the driver, and need not
// be installed. Source: NVML API reference (docs.nvidia.com/deploy/nvml-api), nvml.h.
using NvmlReturn = int;
using NvmlDevice = void*;
constexpr NvmlReturn kNvmlSuccess = 0;
constexpr int kNvmlClockSm = 1;
constexpr int kNvmlClockMemory = 2;
constexpr int kNvmlTemperatureOfGpu = 0;
constexpr unsigned long long kNvmlSwPowerCap = 0x04;
constexpr unsigned long long kNvmlHwSlowdown = 0x08;
constexpr unsigned long long kNvmlSwThermalSlowdown = 0x20;
constexpr unsigned long long kNvmlHwThermalSlowdown = 0x40;
constexpr unsigned long long kNvmlHwPowerBrake = 0x80;

/// Returns NVML's reasons for lower clocks as bits of HoldBack.
std::uint32_t hold_backs(unsigned long long reasons) {
  std::uint32_t held = 0;
  held |= (reasons & kNvmlSwPowerCap) != 0 ? kHeldByPower : 0U;
  held |= (reasons & (kNvmlSwThermalSlowdown | kNvmlHwThermalSlowdown)) != 0 ? kHeldByHeat : 0U;
  held |= (reasons & (kNvmlHwSlowdown | kNvmlHwPowerBrake)) != 0 ? kHeldByHardware : 0U;
  return held;
}

}  // namespace

/// The loaded NVML library and the GPU in it.
class GpuMonitor::Nvml {
 public:
  Nvml(const std::string& library, const std::string& pci_bus_id)
      : library_(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (library_ == nullptr) {
      return;
    }
    find(shutdown_, "nvmlShutdown");
    find(clock_, "nvmlDeviceGetClockInfo");
    find(power_, "nvmlDeviceGetPowerUsage");
    find(temperature_, "nvmlDeviceGetTemperature");
    find(reasons_, "nvmlDeviceGetCurrentClocksEventReasons");
    if (reasons_ == nullptr) {  // This is its older name.
      find(reasons_, "nvmlDeviceGetCurrentClocksThrottleReasons");
    }
    NvmlReturn (*initialise)() = nullptr;
    NvmlReturn (*find_device)(const char*, NvmlDevice*) = nullptr;
    find(initialise, "nvmlInit_v2");
    find(find_device, "nvmlDeviceGetHandleByPciBusId_v2");
    is_initialised_ = initialise != nullptr && shutdown_ != nullptr && find_device != nullptr &&
                      initialise() == kNvmlSuccess;
    has_device_ = is_initialised_ && find_device(pci_bus_id.c_str(), &device_) == kNvmlSuccess;
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  Nvml(Nvml&&) = delete;
  Nvml& operator=(Nvml&&) = delete;
  ~Nvml() {
    if (is_initialised_) {
      static_cast<void>(shutdown_());
    }
    if (library_ != nullptr) {
      static_cast<void>(dlclose(library_));
    }
  }

  [[nodiscard]] bool has_device() const { return has_device_; }

  /// Returns a sample of the GPU. What the GPU does not report is 0.
  [[nodiscard]] DeviceSample sample() const {
    constexpr double milli = 1e-3;
    unsigned long long reasons = 0;
    if (reasons_ != nullptr) {
      static_cast<void>(reasons_(device_, &reasons));
    }
    return {.clock = number(clock_, kNvmlClockSm),
            .memory_clock = number(clock_, kNvmlClockMemory),
            .power = milli * number(power_),
            .temperature = number(temperature_, kNvmlTemperatureOfGpu),
            .held_back_by = hold_backs(reasons)};
  }

 private:
  template <class Function>
  void find(Function& function, const char* name) const {
    // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): how dlsym names functions
    function = reinterpret_cast<Function>(dlsym(library_, name));
  }
  template <class Function, class... Which>
  [[nodiscard]] double number(Function function, Which... which) const {
    unsigned value = 0;
    const bool is_known =
        function != nullptr && function(device_, which..., &value) == kNvmlSuccess;
    return is_known ? static_cast<double>(value) : 0.0;
  }

  void* library_;
  NvmlReturn (*shutdown_)() = nullptr;
  NvmlReturn (*clock_)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlReturn (*power_)(NvmlDevice, unsigned*) = nullptr;
  NvmlReturn (*temperature_)(NvmlDevice, int, unsigned*) = nullptr;
  NvmlReturn (*reasons_)(NvmlDevice, unsigned long long*) = nullptr;
  NvmlDevice device_ = nullptr;
  bool is_initialised_ = false;
  bool has_device_ = false;
};

GpuMonitor::GpuMonitor(const std::string& pci_bus_id, const std::string& library)
    : nvml_(std::make_unique<Nvml>(library, pci_bus_id)) {
  if (nvml_->has_device()) {
    try {
      thread_ = std::thread([this] { watch(); });
    } catch (const std::system_error&) {
      // The system has no more threads, so the program goes on without samples.
    }
  }
}

GpuMonitor::~GpuMonitor() {
  {
    const std::lock_guard lock(mutex_);
    is_ended_ = true;
  }
  ended_.notify_all();
  if (thread_.joinable()) {
    thread_.join();
  }
}

std::vector<DeviceSample> GpuMonitor::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(samples_, {});
}

void GpuMonitor::watch() {
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    const DeviceSample sample = nvml_->sample();  // This may take some milliseconds.
    lock.lock();
    samples_.push_back(sample);
  } while (!ended_.wait_for(lock, kPeriod, [this] { return is_ended_; }));
}

}  // namespace ptdp
