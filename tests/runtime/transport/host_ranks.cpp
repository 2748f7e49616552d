// Runs test functions on ranks with a host's backend.
#include <memory>

#include "kernels/cpu/cpu_backend.h"
#include "tests/runtime/transport/test_ranks.h"

namespace ptdp {

void on_ranks(int size, CollectiveAlgorithm algorithm,
              const std::function<void(const TestRank&)>& body) {
  on_ranks(
      size, algorithm, [] { return std::make_unique<CpuBackend>(); }, body);
}

}  // namespace ptdp
