// Makes the backend of kernels_test: the host's.
#include "kernels/cpu/cpu_backend.h"
#include "tests/kernels/tested_backend.h"

namespace ptdp {

std::unique_ptr<Backend> make_tested_backend() {
  return std::make_unique<CpuBackend>();
}
std::span<const DataType> computed_types() {
  return kWorkingTypes;
}
bool bounds_each_element() {
  return true;
}

}  // namespace ptdp
