// What kernels see of CUDA, on a host. A block's threads are fibers that run one after the other
// from one barrier to the next.
#pragma once

#include <cmath>
#include <cstring>
#include <numbers>
#include <tuple>
#include <utility>

#include "cuda_runtime_api.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One block runs at a time.
#define __shared__ static

struct dim3 {
  // NOLINTNEXTLINE(google-explicit-constructor): as CUDA's
  constexpr dim3(unsigned size_x = 1, unsigned size_y = 1, unsigned size_z = 1)
      : x(size_x), y(size_y), z(size_z) {}
  unsigned x;
  unsigned y;
  unsigned z;
};
struct alignas(16) float4 {
  float x, y, z, w;
};

// Indices and sizes of the thread that runs.
extern dim3 threadIdx;
extern dim3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;

namespace ptdp::emulated_gpu {

struct Launch {
  dim3 blocks;
  dim3 threads;
  std::size_t shared_bytes = 0;
};

/// Runs kernel() for every thread of the grid. Blocks and threads come in ascending order, and the
/// next time in descending order. Ends the program if threads of a block meet different barriers.
void run_grid(const Launch& launch, const std::function<void()>& kernel);

/// Lets blocks of a kernel have `bytes` of dynamic shared memory, as cudaFuncSetAttribute() does.
/// Returns false for more than a block can have.
bool grant_shared_memory(const void* kernel, int bytes);
/// Returns whether blocks of a kernel may have so much dynamic shared memory: what was granted, or
/// 48 KiB less what kernels of this project declare at most.
bool has_shared_memory(const void* kernel, std::size_t bytes);

void wait_for_block();
/// Returns what the thread of the warp's lane `from` passed as `value`. All threads of a warp must
/// call it.
std::uint64_t exchange_in_warp(std::uint64_t value, unsigned from);
unsigned lane_of_thread();

template <class T>
T shuffled(T value, unsigned from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = exchange_in_warp(bits, from);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace ptdp::emulated_gpu

void* emulated_dynamic_shared();

inline void __syncthreads() {
  ptdp::emulated_gpu::wait_for_block();
}
inline void __syncwarp() {
  static_cast<void>(ptdp::emulated_gpu::exchange_in_warp(0, ptdp::emulated_gpu::lane_of_thread()));
}
template <class T>
T __shfl_sync(unsigned, T value, int from) {
  return ptdp::emulated_gpu::shuffled(value, static_cast<unsigned>(from) % 32U);
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return ptdp::emulated_gpu::shuffled(
      value, ptdp::emulated_gpu::lane_of_thread() ^ static_cast<unsigned>(mask));
}
template <class T>
T __shfl_down_sync(unsigned, T value, unsigned offset) {
  const unsigned lane = ptdp::emulated_gpu::lane_of_thread();
  return ptdp::emulated_gpu::shuffled(value, lane + offset < 32U ? lane + offset : lane);
}
inline double cospi(double x) {
  return std::cos(std::numbers::pi * x);
}
inline float rsqrtf(float x) {
  return 1.0F / std::sqrt(x);
}

struct cudaLaunchConfig_t {
  dim3 gridDim;
  dim3 blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
};

cudaError_t cudaFuncSetAttribute(const void* kernel, cudaFuncAttribute attribute, int value);

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                               Arguments&&... arguments) {
  const ptdp::emulated_gpu::Launch launch{config->gridDim, config->blockDim,
                                          config->dynamicSmemBytes};
  if (launch.threads.x == 0 || launch.threads.x > 1024 || launch.threads.x % 32 != 0 ||
      launch.blocks.x == 0 || launch.blocks.y == 0 || launch.blocks.y > 65535 ||
      launch.blocks.z == 0 || launch.blocks.z > 65535 ||
      !ptdp::emulated_gpu::has_shared_memory(reinterpret_cast<const void*>(kernel),
                                             launch.shared_bytes)) {
    return cudaErrorInvalidValue;
  }
  return ptdp::emulated_gpu::queue(
      config->stream, reinterpret_cast<const void*>(kernel),
      [launch, kernel,
       values = std::tuple<std::decay_t<Parameters>...>(std::forward<Arguments>(arguments)...)] {
        ptdp::emulated_gpu::run_grid(launch, [&] { std::apply(kernel, values); });
      });
}
