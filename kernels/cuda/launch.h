// Launches kernels, and computes sums and maxima over warps and blocks.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/check.h"

namespace ptdp::cuda {

inline constexpr int kWarp = 32;  ///< Threads of a warp.
/// Threads of a block when nothing else matters.
inline constexpr int kThreads = 256;
/// Most blocks of kernels that walk over their elements: several for each multiprocessor of any
/// GPU.
inline constexpr std::int64_t kMostBlocks = 2048;

/// The blocks of a launch, in at most three dimensions, and the size of each.
struct Grid {
  dim3 blocks = 1;
  int threads = kThreads;         ///< Threads of a block.
  std::int64_t shared_bytes = 0;  ///< Dynamic shared memory of a block [B].
};
/// Most shared memory that a kernel with dynamic memory declares itself [B].
inline constexpr std::int64_t kMostDeclaredShared = 8 << 10;

/// Returns blocks of kThreads threads for `count` elements of work, at most kMostBlocks, whose
/// threads walk over the elements.
[[nodiscard]] inline Grid walking_grid(std::int64_t count) {
  const std::int64_t blocks = (count + kThreads - 1) / kThreads;
  return {.blocks = static_cast<unsigned>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks))};
}

/// Queues kernel(arguments...) on a stream. Throws CudaError.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, const Grid& grid, void (*kernel)(Parameters...),
            Arguments... arguments) {
  // Blocks get 48 KiB without asking, of which some is for what the kernel declares.
  constexpr std::int64_t always_there = (48 << 10) - kMostDeclaredShared;
  if (grid.shared_bytes > always_there) {
    PTDP_CUDA_CHECK(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                         cudaFuncAttributeMaxDynamicSharedMemorySize,
                                         static_cast<int>(grid.shared_bytes)));
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid.blocks;
  config.blockDim = dim3(static_cast<unsigned>(grid.threads));
  config.dynamicSmemBytes = static_cast<std::size_t>(grid.shared_bytes);
  config.stream = stream;
  PTDP_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

/// Returns the number of this thread in a grid of one dimension.
__device__ inline std::int64_t first_element() {
  return std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
}
/// Returns the number of all threads in a grid of one dimension.
__device__ inline std::int64_t num_threads() {
  return std::int64_t{gridDim.x} * blockDim.x;
}

/// Returns the block's dynamic shared memory, aligned to 16 bytes.
template <class T>
__device__ inline T* dynamic_shared() {
#ifdef __CUDACC__
  extern __shared__ float4 memory[];
  return reinterpret_cast<T*>(memory);
#else
  return reinterpret_cast<T*>(emulated_dynamic_shared());
#endif
}

/// Returns the sum of x over a warp, in all of its threads. The order of the sum is always the
/// same.
template <class T>
__device__ inline T warp_sum(T x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    x += __shfl_xor_sync(0xFFFFFFFFU, x, offset);
  }
  return x;
}
/// Returns the maximum of x over a warp, in all of its threads.
template <class T>
__device__ inline T warp_maximum(T x) {
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    const T other = __shfl_xor_sync(0xFFFFFFFFU, x, offset);
    x = x < other ? other : x;
  }
  return x;
}

/// Returns the sum of x over a block of whole warps, in all of its threads, all of which call it.
template <class T>
__device__ inline T block_sum(T x) {
  __shared__ T of_warp[kWarp];
  x = warp_sum(x);
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = x;
  }
  __syncthreads();
  x = threadIdx.x % kWarp < blockDim.x / kWarp ? of_warp[threadIdx.x % kWarp] : T{0};
  x = warp_sum(x);
  __syncthreads();  // This comes before the next sum writes there.
  return x;
}
/// Returns the maximum of x over a block of whole warps, in all of its threads, all of which call
/// it. No x may be below `least`.
template <class T>
__device__ inline T block_maximum(T x, T least) {
  __shared__ T of_warp[kWarp];
  x = warp_maximum(x);
  if (threadIdx.x % kWarp == 0) {
    of_warp[threadIdx.x / kWarp] = x;
  }
  __syncthreads();
  x = threadIdx.x % kWarp < blockDim.x / kWarp ? of_warp[threadIdx.x % kWarp] : least;
  x = warp_maximum(x);
  __syncthreads();
  return x;
}

}  // namespace ptdp::cuda
