// Stands in for oneDNN in builds without it.
#include <cassert>

#include "kernels/cpu/library_products.h"

namespace ptdp {

struct OneDnnCache {};

void OneDnnCacheDeleter::operator()(OneDnnCache* cache) const noexcept {
  delete cache;
}

bool has_one_dnn(DataType) {
  return false;
}

void multiply_by_one_dnn(Backend&, std::unique_ptr<OneDnnCache, OneDnnCacheDeleter>&, const Matmul&,
                         const Buffer&, const Buffer&, const Buffer&) {
  assert(false && "this build has no oneDNN");
}

}  // namespace ptdp
