// Sorts pairs by key on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ptdp::cuda {

/// Returns the scratch that sort_by_key takes for `size` pairs [B].
[[nodiscard]] std::int64_t sort_by_key_scratch(std::int64_t size);

/// Pairs of a key and a value, to be sorted in ascending order of keys. Pairs with equal keys keep
/// their order.
struct SortByKey {
  const std::int32_t* keys = nullptr;  ///< Keys in [0, 2^key_bits); fewer bits are faster.
  std::int32_t* sorted_keys = nullptr;
  const std::int32_t* values = nullptr;
  std::int32_t* sorted_values = nullptr;
  std::int64_t size = 0;
  int key_bits = 31;
};
/// Queues the sorting of `pairs` on a stream. `scratch` is aligned to 256 bytes and has
/// sort_by_key_scratch() bytes. Throws CudaError.
void sort_by_key(cudaStream_t stream, const SortByKey& pairs, void* scratch);

}  // namespace ptdp::cuda
