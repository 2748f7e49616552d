// Attention by cuDNN, in builds that have it and for shapes that it supports (with_cudnn.cpp,
// without_cudnn.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/backend.h"

namespace ptdp::cuda {

/// Attention of one rank by cuDNN, on the GPU of the thread that makes this object. Graphs are kept
/// by shape and type. Calls do not wait for the GPU; scratch comes from the backend. One thread at
/// a time may use it.
class FusedAttention {
 public:
  FusedAttention(Backend& backend, bool is_deterministic);
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;
  FusedAttention(FusedAttention&&) = delete;
  FusedAttention& operator=(FusedAttention&&) = delete;
  ~FusedAttention();

  /// Returns whether cuDNN computes this attention, forward and backward. It does not with dropout,
  /// whose masks are ours (counter_random.h), nor in f32.
  [[nodiscard]] bool supports(const Attention& shape, DataType type) {
    return refusal(shape, type).empty();
  }
  /// Returns why cuDNN does not compute this attention, or "" if it does.
  [[nodiscard]] std::string refusal(const Attention& shape, DataType type);

  /// Queues Backend::attention for a supported shape on `stream`. Throws CudaError.
  void forward(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum);
  /// Queues Backend::attention_backward for a supported shape on `stream`. Throws CudaError.
  void backward(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                Buffer dout, Buffer dqkv);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp::cuda
