// Turns errors of CUDA's libraries into exceptions.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace ptdp {

/// Thrown when a call of CUDA or one of its libraries fails. The message has the call and the
/// library's text.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace cuda {

/// Throws CudaError with `call` unless `status` is cudaSuccess.
inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw CudaError(std::string(call) + ": " + cudaGetErrorName(status) + ": " +
                    cudaGetErrorString(status));
  }
}

}  // namespace cuda
}  // namespace ptdp

#define PTDP_CUDA_CHECK(call) ::ptdp::cuda::check((call), #call)
