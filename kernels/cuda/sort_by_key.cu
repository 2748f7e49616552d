// Sorts by the radix sort of CUB, which keeps the order of equal keys.
#include "kernels/cuda/sort_by_key.h"

#include <cub/device/device_radix_sort.cuh>

#include "kernels/cuda/check.h"

namespace ptdp::cuda {
namespace {

/// Returns the scratch that sorting takes when `scratch` is null [B], or else queues the sorting.
/// Keys are not negative, so that their sign bit needs no pass.
std::size_t sort_pairs(cudaStream_t stream, const SortByKey& pairs, void* scratch,
                       std::size_t bytes) {
  PTDP_CUDA_CHECK(cub::DeviceRadixSort::SortPairs(
      scratch, bytes, pairs.keys, pairs.sorted_keys, pairs.values, pairs.sorted_values,
      static_cast<int>(pairs.size), 0, pairs.key_bits, stream));
  return bytes;
}

}  // namespace

std::int64_t sort_by_key_scratch(std::int64_t size) {
  // The size is that for all bits; fewer bits take as much.
  return static_cast<std::int64_t>(sort_pairs(nullptr, {.size = size}, nullptr, 0));
}

void sort_by_key(cudaStream_t stream, const SortByKey& pairs, void* scratch) {
  static_cast<void>(sort_pairs(stream, pairs, scratch,
                               static_cast<std::size_t>(sort_by_key_scratch(pairs.size))));
}

}  // namespace ptdp::cuda
