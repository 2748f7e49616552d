// Elements of the working types on a GPU: their types, and how they are read and rounded.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include <cassert>
#include <cstdint>
#include <type_traits>

#include "kernels/data_type.h"

namespace ptdp::cuda {

/// A bf16 number: the upper half of an f32.
struct BFloat16 {
  std::uint16_t bits;
};

/// An fp16 number: IEEE 754 binary16.
struct Float16 {
  std::uint16_t bits;
};

/// The type in which sums over elements of `T` are formed, as accumulator_of() says.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Returns an element in its accumulator type, exactly.
__host__ __device__ inline double widen(double x) {
  return x;
}
__host__ __device__ inline float widen(float x) {
  return x;
}
__host__ __device__ inline float widen(BFloat16 x) {
  return __bfloat162float(__nv_bfloat16(__nv_bfloat16_raw{x.bits}));
}
__host__ __device__ inline float widen(Float16 x) {
  return __half2float(__half(__half_raw{x.bits}));
}

/// Returns x in type `T`, rounded to nearest even.
template <class T>
__host__ __device__ inline T narrow(float x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {static_cast<__nv_bfloat16_raw>(__float2bfloat16_rn(x)).x};
  } else if constexpr (std::is_same_v<T, Float16>) {
    return {static_cast<__half_raw>(__float2half_rn(x)).x};
  } else {
    return static_cast<T>(x);
  }
}
/// Returns x in type `T`, rounded to nearest even once, not by way of f32.
template <class T>
__host__ __device__ inline T narrow(double x) {
  if constexpr (std::is_same_v<T, BFloat16>) {
    return {static_cast<__nv_bfloat16_raw>(__double2bfloat16(x)).x};
  } else if constexpr (std::is_same_v<T, Float16>) {
    return {static_cast<__half_raw>(__double2half(x)).x};
  } else {
    return static_cast<T>(x);
  }
}

/// Calls `function` with a value of the C++ type of f32, bf16 or fp16. `type` must be one of these.
template <class Function>
inline void visit_working_type(DataType type, Function&& function) {
  switch (type) {
    case DataType::kFloat32:
      function(float{});
      return;
    case DataType::kBFloat16:
      function(BFloat16{});
      return;
    case DataType::kFloat16:
      function(Float16{});
      return;
    case DataType::kFloat64:
    case DataType::kInt32:
      assert(false && "not a working type of a GPU");
      return;
  }
}

/// Calls `function` with a value of the C++ type of f64, f32, bf16 or fp16. `type` must be one of
/// these.
template <class Function>
inline void visit_floating_type(DataType type, Function&& function) {
  if (type == DataType::kFloat64) {
    function(double{});
  } else {
    visit_working_type(type, function);
  }
}

/// A vector of elements that are read and written at once, at most 16 bytes.
template <class T, int kSize>
struct alignas(sizeof(T) * kSize) Vector {
  T values[kSize];

  __host__ __device__ T& operator[](int i) { return values[i]; }
  __host__ __device__ const T& operator[](int i) const { return values[i]; }
};

/// Number of elements of `T` in 16 bytes.
template <class T>
inline constexpr int kVectorSize = 16 / static_cast<int>(sizeof(T));

/// Returns whether all pointers are multiples of `bytes`; null is one.
template <class... Pointers>
[[nodiscard]] inline bool are_aligned(std::size_t bytes, const Pointers*... pointers) {
  return ((reinterpret_cast<std::uintptr_t>(pointers) % bytes == 0) && ...);
}

}  // namespace ptdp::cuda
