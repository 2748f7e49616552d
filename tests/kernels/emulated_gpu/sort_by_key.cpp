// Sorts on the emulated GPU.
#include "kernels/cuda/sort_by_key.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace ptdp::cuda {

std::int64_t sort_by_key_scratch(std::int64_t) {
  return 1;
}

void sort_by_key(cudaStream_t stream, const SortByKey& pairs, void*) {
  static const char kind = 0;
  static_cast<void>(emulated_gpu::queue(stream, &kind, [pairs] {
    std::vector<std::int64_t> order(static_cast<std::size_t>(pairs.size));
    std::iota(order.begin(), order.end(), 0);
    // As a radix sort, of the bits that it was told of.
    const auto mask = static_cast<std::int32_t>((1LL << pairs.key_bits) - 1);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      return (pairs.keys[a] & mask) < (pairs.keys[b] & mask);
    });
    for (std::int64_t i = 0; i < pairs.size; ++i) {
      pairs.sorted_keys[i] = pairs.keys[order[static_cast<std::size_t>(i)]];
      pairs.sorted_values[i] = pairs.values[order[static_cast<std::size_t>(i)]];
    }
  }));
}

}  // namespace ptdp::cuda
