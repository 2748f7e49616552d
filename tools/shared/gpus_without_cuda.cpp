// In place of the GPUs of this machine, in a build without CUDA: there are none.
#include <cassert>

#include "tools/shared/gpus.h"

namespace ptdp {

bool has_cuda() {
  return false;
}

std::vector<Gpu> usable_gpus() {
  return {};
}

std::unique_ptr<Backend> make_gpu_backend(const GpuUse& /*use*/) {
  assert(false && "there are no GPUs");
  return nullptr;
}

std::function<std::vector<DeviceSample>()> watch_gpu(int /*number*/) {
  return {};
}

}  // namespace ptdp
