// Enqueues operations many times on the first GPU and times them by events.
#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <type_traits>

#include "kernels/cuda/gpu_probe.h"

namespace ptdp {
namespace {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw std::runtime_error(std::string(call) + ": " + cudaGetErrorString(status));
  }
}

void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw std::runtime_error(std::string(call) + ": " + cublasGetStatusString(status));
  }
}

#define PTDP_GPU_CHECK(call) check((call), #call)

struct Deleter {
  void operator()(void* memory) const noexcept { cudaFree(memory); }
  void operator()(cudaStream_t stream) const noexcept { cudaStreamDestroy(stream); }
  void operator()(cudaEvent_t event) const noexcept { cudaEventDestroy(event); }
  void operator()(cublasHandle_t handle) const noexcept { cublasDestroy(handle); }
};
template <typename Handle>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Deleter>;

constexpr int kThreads = 256;
constexpr std::int64_t kMostBlocks = 1 << 16;
constexpr std::int64_t kAlignment = 256;

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(
      std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
}

std::int64_t aligned(std::int64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

/// Fills memory with uniform values in [-1, 1). Zeros or equal numbers would draw less power, and
/// thus run faster, than values of a training step.
__global__ void fill_kernel(__nv_bfloat16* values, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    std::uint64_t bits = (static_cast<std::uint64_t>(i) + 1) * 0x9E3779B97F4A7C15ULL;
    bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9ULL;
    bits ^= bits >> 27;
    values[i] = __float2bfloat16(static_cast<float>(bits >> 40) * 0x1p-23F - 1.0F);
  }
}

/// Adds bf16 numbers, eight in each of `count` units.
__global__ void add_kernel(const uint4* __restrict__ a, const uint4* __restrict__ b,
                           uint4* __restrict__ sum, std::int64_t count) {
  const std::int64_t stride = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count;
       i += stride) {
    const uint4 left = a[i];
    const uint4 right = b[i];
    uint4 result;
    const auto* l = reinterpret_cast<const __nv_bfloat162*>(&left);
    const auto* r = reinterpret_cast<const __nv_bfloat162*>(&right);
    auto* s = reinterpret_cast<__nv_bfloat162*>(&result);
    for (int pair = 0; pair < 4; ++pair) {
      s[pair] = __hadd2(l[pair], r[pair]);
    }
    sum[i] = result;
  }
}

__global__ void empty_kernel() {}

GpuDescription describe() {
  GpuDescription gpu;
  cudaDeviceProp properties{};
  PTDP_GPU_CHECK(cudaGetDeviceProperties(&properties, 0));
  gpu.name = properties.name;
  gpu.num_multiprocessors = properties.multiProcessorCount;
  gpu.memory_bytes = static_cast<std::int64_t>(properties.totalGlobalMem);
  PTDP_GPU_CHECK(cudaDriverGetVersion(&gpu.driver_version));
  PTDP_GPU_CHECK(cudaRuntimeGetVersion(&gpu.runtime_version));
  return gpu;
}

}  // namespace

struct GpuProbe::State {
  GpuDescription gpu;
  std::int64_t size = 0;
  Owned<void*> memory;
  Owned<cudaStream_t> stream;
  Owned<cudaEvent_t> begin;
  Owned<cudaEvent_t> end;
  Owned<cublasHandle_t> cublas;

  explicit State(std::int64_t bytes) : gpu(describe()), size(aligned(bytes)) {
    void* allocated = nullptr;
    PTDP_GPU_CHECK(cudaMalloc(&allocated, static_cast<std::size_t>(size)));
    memory.reset(allocated);
    cudaStream_t new_stream = nullptr;
    PTDP_GPU_CHECK(cudaStreamCreate(&new_stream));
    stream.reset(new_stream);
    for (Owned<cudaEvent_t>* event : {&begin, &end}) {
      cudaEvent_t new_event = nullptr;
      PTDP_GPU_CHECK(cudaEventCreate(&new_event));
      event->reset(new_event);
    }
    cublasHandle_t handle = nullptr;
    PTDP_GPU_CHECK(cublasCreate(&handle));
    cublas.reset(handle);
    PTDP_GPU_CHECK(cublasSetStream(handle, new_stream));
    PTDP_GPU_CHECK(cublasGetVersion(handle, &gpu.cublas_version));
    const std::int64_t count = size / static_cast<std::int64_t>(sizeof(__nv_bfloat16));
    fill_kernel<<<blocks_for(count), kThreads, 0, new_stream>>>(
        static_cast<__nv_bfloat16*>(memory.get()), count);
    PTDP_GPU_CHECK(cudaGetLastError());
    PTDP_GPU_CHECK(cudaStreamSynchronize(new_stream));
  }

  /// Returns memory for the `repeat`-th operation of `bytes` bytes, a different place each time
  /// while there is room.
  char* slot(std::int64_t bytes, int repeat) const {
    const std::int64_t slots = size / aligned(bytes);
    if (slots == 0) {
      throw std::runtime_error("GpuProbe: an operation of " + std::to_string(bytes) +
                               " bytes does not fit the probe's " + std::to_string(size));
    }
    return static_cast<char*>(memory.get()) + repeat % slots * aligned(bytes);
  }

  /// Returns the mean time of `repeats` calls of operation(repeat), which enqueue work [s]. One
  /// more call runs before the clock starts.
  template <typename Operation>
  double time(int repeats, const Operation& operation) const {
    operation(0);
    PTDP_GPU_CHECK(cudaEventRecord(begin.get(), stream.get()));
    for (int repeat = 1; repeat <= repeats; ++repeat) {
      operation(repeat);
    }
    PTDP_GPU_CHECK(cudaGetLastError());
    PTDP_GPU_CHECK(cudaEventRecord(end.get(), stream.get()));
    PTDP_GPU_CHECK(cudaEventSynchronize(end.get()));
    float milliseconds = 0.0F;
    PTDP_GPU_CHECK(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    return milliseconds / 1e3 / repeats;
  }
};

int num_gpus() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

GpuProbe::GpuProbe(std::int64_t memory) : state_(std::make_unique<State>(memory)) {}
GpuProbe::~GpuProbe() = default;

const GpuDescription& GpuProbe::gpu() const {
  return state_->gpu;
}

double GpuProbe::linear_seconds(LinearProduct product, std::int64_t tokens, std::int64_t outputs,
                                std::int64_t inputs, int repeats) {
  constexpr std::int64_t kBytes = sizeof(__nv_bfloat16);
  const std::int64_t x = aligned(tokens * inputs * kBytes);
  const std::int64_t w = aligned(outputs * inputs * kBytes);
  const std::int64_t y = aligned(tokens * outputs * kBytes);
  const float one = 1.0F;
  const float zero = 0.0F;
  // cuBLAS counts columns first: a row-major matrix is its transpose there, and y = x·wᵀ is yᵀ =
  // w·xᵀ.
  const auto multiply = [&](cublasOperation_t op_a, cublasOperation_t op_b, std::int64_t m,
                            std::int64_t n, std::int64_t k, const void* a, std::int64_t lda,
                            const void* b, std::int64_t ldb, void* c) {
    PTDP_GPU_CHECK(cublasGemmEx(state_->cublas.get(), op_a, op_b, static_cast<int>(m),
                                static_cast<int>(n), static_cast<int>(k), &one, a, CUDA_R_16BF,
                                static_cast<int>(lda), b, CUDA_R_16BF, static_cast<int>(ldb), &zero,
                                c, CUDA_R_16BF, static_cast<int>(m), CUBLAS_COMPUTE_32F,
                                CUBLAS_GEMM_DEFAULT));
  };
  return state_->time(repeats, [&](int repeat) {
    char* const at_x = state_->slot(x + w + y, repeat);
    char* const at_w = at_x + x;
    char* const at_y = at_w + w;
    switch (product) {
      case LinearProduct::kForward:
        multiply(CUBLAS_OP_T, CUBLAS_OP_N, outputs, tokens, inputs, at_w, inputs, at_x, inputs,
                 at_y);
        break;
      case LinearProduct::kInputGradient:
        multiply(CUBLAS_OP_N, CUBLAS_OP_N, inputs, tokens, outputs, at_w, inputs, at_y, outputs,
                 at_x);
        break;
      case LinearProduct::kWeightGradient:
        multiply(CUBLAS_OP_N, CUBLAS_OP_T, inputs, outputs, tokens, at_x, inputs, at_y, outputs,
                 at_w);
        break;
    }
  });
}

double GpuProbe::element_wise_seconds(std::int64_t traffic, int repeats) {
  const std::int64_t count = traffic / 3 / static_cast<std::int64_t>(sizeof(uint4));
  return state_->time(repeats, [&](int repeat) {
    auto* const a = reinterpret_cast<uint4*>(state_->slot(3 * count * sizeof(uint4), repeat));
    add_kernel<<<blocks_for(count), kThreads, 0, state_->stream.get()>>>(a, a + count,
                                                                         a + 2 * count, count);
  });
}

double GpuProbe::copy_seconds(std::int64_t traffic, int repeats) {
  const std::int64_t half = traffic / 2;
  return state_->time(repeats, [&](int repeat) {
    char* const from = state_->slot(2 * half, repeat);
    PTDP_GPU_CHECK(cudaMemcpyAsync(from + half, from, static_cast<std::size_t>(half),
                                   cudaMemcpyDeviceToDevice, state_->stream.get()));
  });
}

double GpuProbe::empty_kernel_seconds(int repeats) {
  return state_->time(repeats,
                      [&](int) { empty_kernel<<<1, kThreads, 0, state_->stream.get()>>>(); });
}

double GpuProbe::launch_host_seconds(int repeats) {
  empty_kernel<<<1, kThreads, 0, state_->stream.get()>>>();
  PTDP_GPU_CHECK(cudaStreamSynchronize(state_->stream.get()));
  const auto begin = std::chrono::steady_clock::now();
  for (int repeat = 0; repeat < repeats; ++repeat) {
    empty_kernel<<<1, kThreads, 0, state_->stream.get()>>>();
  }
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
  PTDP_GPU_CHECK(cudaGetLastError());
  PTDP_GPU_CHECK(cudaStreamSynchronize(state_->stream.get()));
  return elapsed.count() / repeats;
}

}  // namespace ptdp
