// Sorting on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace ptdp::cuda {

/// Bytes of scratch that sort_by_key takes for `size` pairs.
[[nodiscard]] std::int64_t sort_by_key_scratch(std::int64_t size);

/// Pairs of (key, value) in ascending order of keys; of equal keys in the order they came.
struct SortByKey {
  const std::int32_t* keys = nullptr;  ///< In [0, 2^key_bits): the fewer bits, the faster.
  std::int32_t* sorted_keys = nullptr;
  const std::int32_t* values = nullptr;
  std::int32_t* sorted_values = nullptr;
  std::int64_t size = 0;
  int key_bits = 31;
};
/// `scratch` is aligned to 256 bytes. Throws CudaError.
void sort_by_key(cudaStream_t stream, const SortByKey& pairs, void* scratch);

}  // namespace ptdp::cuda
