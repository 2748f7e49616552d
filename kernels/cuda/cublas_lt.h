// What planning products with cuBLASLt is built of: checked calls, owned descriptors, types.
#pragma once

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <cassert>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "kernels/cuda/check.h"
#include "kernels/data_type.h"

namespace ptdp::cuda {

inline void check(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS) {
    throw CudaError(std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
                    cublasLtGetStatusString(status));
  }
}
#define PTDP_CUBLAS_CHECK(call) ::ptdp::cuda::check((call), #call)

struct DestroyCublasLt {
  void operator()(cublasLtHandle_t handle) const noexcept {
    static_cast<void>(cublasLtDestroy(handle));
  }
  void operator()(cublasLtMatmulDesc_t descriptor) const noexcept {
    static_cast<void>(cublasLtMatmulDescDestroy(descriptor));
  }
  void operator()(cublasLtMatrixLayout_t layout) const noexcept {
    static_cast<void>(cublasLtMatrixLayoutDestroy(layout));
  }
  void operator()(cublasLtMatmulPreference_t preference) const noexcept {
    static_cast<void>(cublasLtMatmulPreferenceDestroy(preference));
  }
};
template <class Handle>
using OwnedByCublasLt = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyCublasLt>;

inline cudaDataType_t cuda_type_of(DataType type) {
  switch (type) {
    case DataType::kFloat64:
      return CUDA_R_64F;
    case DataType::kFloat32:
      return CUDA_R_32F;
    case DataType::kBFloat16:
      return CUDA_R_16BF;
    case DataType::kFloat16:
      return CUDA_R_16F;
    case DataType::kInt32:
      break;
  }
  assert(false && "not a type that is multiplied");
  return CUDA_R_32F;
}

/// Returns the largest power of two that divides an address, at most 256 [B].
inline std::uint32_t alignment_of(const void* memory) {
  constexpr std::uintptr_t most = 256;
  // NOLINTNEXTLINE(cppcoreguidelines-pro-type-reinterpret-cast): its address is meant
  const auto address = reinterpret_cast<std::uintptr_t>(memory) | most;
  return static_cast<std::uint32_t>(address & (~address + 1));
}

/// Returns the layout of a matrix that has `rows` rows when columns are counted first.
inline OwnedByCublasLt<cublasLtMatrixLayout_t> layout_of(DataType type, std::int64_t rows,
                                                         std::int64_t columns) {
  cublasLtMatrixLayout_t layout = nullptr;
  PTDP_CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&layout, cuda_type_of(type),
                                               static_cast<std::uint64_t>(rows),
                                               static_cast<std::uint64_t>(columns), rows));
  return OwnedByCublasLt<cublasLtMatrixLayout_t>(layout);
}

template <class Value>
void set(cublasLtMatmulDesc_t descriptor, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  PTDP_CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(descriptor, attribute, &value, sizeof(value)));
}
template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  PTDP_CUBLAS_CHECK(
      cublasLtMatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)));
}

}  // namespace ptdp::cuda
