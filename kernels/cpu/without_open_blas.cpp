// Stands in for OpenBLAS in builds without it.
#include <cassert>

#include "kernels/cpu/library_products.h"

namespace ptdp {

void prepare_open_blas_environment() {}

bool has_open_blas() {
  return false;
}

bool prefers_open_blas() {
  return false;
}

void multiply_by_open_blas(const Matmul&, const Buffer&, const Buffer&, const Buffer&) {
  assert(false && "this build has no OpenBLAS");
}

}  // namespace ptdp
