// Makes the backend of emulated_gpu_test and gpu_test: the GPU, emulated or real, that the program
// is linked with.
#include "kernels/cuda/cuda_backend.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {
namespace {

/// Fills the memory from which a backend's first blocks are cut with NaN, because no operation may
/// assume anything of scratch memory.
void spoil_memory(Backend& backend) {
  constexpr std::int64_t size = std::int64_t{4} << 20U;
  static const std::vector<float> nothing(size, std::numeric_limits<float>::quiet_NaN());
  const Tensor memory(backend, DataType::kFloat32, size);
  backend.copy_in(nothing.data(), memory);
}

}  // namespace

std::unique_ptr<Backend> make_tested_backend() {
  if (num_cuda_devices() == 0) {
    return nullptr;
  }
  std::unique_ptr<Backend> backend = make_cuda_backend({.is_deterministic = true});
  spoil_memory(*backend);
  backend->reset_peak();
  return backend;
}
std::span<const DataType> computed_types() {
  return std::span(kWorkingTypes).subspan(1);
}
bool bounds_each_element() {
#ifdef PTDP_EMULATED_GPU
  return true;
#else
  return false;
#endif
}

}  // namespace ptdp
