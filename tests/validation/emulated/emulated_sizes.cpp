// Measures an emulated GPU as a real one is, at sizes that an emulation can compute.
#include "runtime/profiling/profiled_device.h"
#include "runtime/profiling/profiled_models.h"

namespace ptdp {

/// Defined by runtime/profiling/gpu_device.cpp, as this folder compiles it.
[[nodiscard]] ProfiledDevice gpu_device_at_real_sizes(const GpuRequest& request);

ProfiledDevice gpu_device(const GpuRequest& request) {
  ProfiledDevice device = gpu_device_at_real_sizes(request);
  device.warm_up = 0.0;
  device.copies = {1 << 10, 1 << 12, 1 << 14};
  device.host_copies = {1 << 12};
  device.peak_size = 32;
  // With the widths and lengths that the tiny models of tools/gpu-check have.
  device.models = [](double /*most_flops*/) {
    return std::vector<ProfiledModel>{profiled_model({32, 2, 16, 128, 32, 1, 64, 1, 0.0}),
                                      profiled_model({64, 2, 32, 256, 32, 1, 256, 1, 0.0}),
                                      profiled_model({64, 2, 32, 256, 32, 2, 256, 1, 0.0}),
                                      profiled_model({32, 2, 16, 128, 32, 1, 64, 1, 0.1}),
                                      profiled_model({64, 2, 32, 256, 32, 1, 256, 1, 0.1})};
  };
  return device;
}

}  // namespace ptdp
