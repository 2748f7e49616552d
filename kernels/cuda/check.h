// What CUDA's libraries report becomes an exception.
#pragma once

#include <cuda_runtime.h>

#include <stdexcept>
#include <string>

namespace ptdp {

/// A call of CUDA or one of its libraries failed: the call and what it said.
class CudaError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

namespace cuda {

inline void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) {
    throw CudaError(std::string(call) + ": " + cudaGetErrorName(status) + ": " +
                    cudaGetErrorString(status));
  }
}

}  // namespace cuda
}  // namespace ptdp

#define PTDP_CUDA_CHECK(call) ::ptdp::cuda::check((call), #call)
