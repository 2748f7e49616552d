// Attention by cuDNN, in builds that have it and for shapes that it supports (with_cudnn.cpp,
// without_cudnn.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/backend.h"

namespace ptdp::cuda {

/// Attention of one rank by cuDNN, on the GPU of the thread that makes this object. Graphs are kept
/// by shape, type and layout. Calls do not wait for the GPU; scratch comes from the backend. One
/// thread at a time may use it.
class FusedAttention {
 public:
  FusedAttention(Backend& backend, bool is_deterministic);
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;
  FusedAttention(FusedAttention&&) = delete;
  FusedAttention& operator=(FusedAttention&&) = delete;
  ~FusedAttention();

  /// Returns why cuDNN does not compute this pass, or "" if it does. It does not in f32, nor with
  /// dropout, whose masks are ours (counter_random.h), nor with capped scores.
  [[nodiscard]] std::string refusal(const AttentionCall& call);
  /// Returns why cuDNN does not compute this backward pass, or "" if it does.
  [[nodiscard]] std::string refusal(const AttentionBackwardCall& call);

  /// Queues Backend::attention on `stream`, for a call that is not refused. Throws CudaError.
  void forward(cudaStream_t stream, const AttentionCall& call);
  /// Queues Backend::attention_backward on `stream`, for a call that is not refused. Throws
  /// CudaError.
  void backward(cudaStream_t stream, const AttentionBackwardCall& call);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp::cuda
