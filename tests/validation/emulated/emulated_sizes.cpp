// Measures an emulated GPU as a real one is, at sizes that an emulation can compute.
#include <array>

#include "runtime/profiling/profiled_device.h"
#include "runtime/profiling/profiled_models.h"

namespace ptdp {
namespace {

// The widths and lengths that the tiny models of tools/gpu-check have.
constexpr std::array<ModelShape, 5> kShapes = {{
    {32, 2, 16, 128, 32, 1, 64, 1, 0.0},
    {64, 2, 32, 256, 32, 1, 256, 1, 0.0},
    {64, 2, 32, 256, 32, 2, 256, 1, 0.0},
    {32, 2, 16, 128, 32, 1, 64, 1, 0.1},
    {64, 2, 32, 256, 32, 1, 256, 1, 0.1},
}};

}  // namespace

/// Defined by runtime/profiling/gpu_device.cpp, as this folder compiles it.
[[nodiscard]] ProfiledDevice gpu_device_at_real_sizes(const GpuRequest& request);

ProfiledDevice gpu_device(const GpuRequest& request) {
  ProfiledDevice device = gpu_device_at_real_sizes(request);
  device.warm_up = 0.0;
  device.copies = {1 << 10, 1 << 12, 1 << 14};
  device.host_copies = {1 << 12};
  device.peak_size = 32;
  device.models = [](double /*most_flops*/) {
    std::vector<ProfiledModel> models;
    models.reserve(kShapes.size());
    for (const ModelShape& shape : kShapes) {
      models.push_back(profiled_model(shape));
    }
    return models;
  };
  return device;
}

}  // namespace ptdp
