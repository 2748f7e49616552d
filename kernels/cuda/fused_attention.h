// Attention by a library, where there is one and it can: cuDNN (with_cudnn.cpp, without_cudnn.cpp).
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <string>

#include "kernels/backend.h"

namespace ptdp::cuda {

/// Of one rank, on the GPU of the thread that makes it. Graphs are kept by shape and type. No call
/// counts or waits; scratch comes from the backend. One thread at a time.
class FusedAttention {
 public:
  FusedAttention(Backend& backend, bool is_deterministic);
  FusedAttention(const FusedAttention&) = delete;
  FusedAttention& operator=(const FusedAttention&) = delete;
  FusedAttention(FusedAttention&&) = delete;
  FusedAttention& operator=(FusedAttention&&) = delete;
  ~FusedAttention();

  /// Whether the library computes this, forward and backward: not with dropout, whose masks are
  /// ours (counter_random.h), nor f32.
  [[nodiscard]] bool supports(const Attention& shape, DataType type) {
    return refusal(shape, type).empty();
  }
  /// Why it does not; empty where it does.
  [[nodiscard]] std::string refusal(const Attention& shape, DataType type);

  /// As Backend::attention, of what is supported.
  void forward(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum);
  void backward(cudaStream_t stream, const Attention& shape, Buffer qkv, Buffer out, Buffer log_sum,
                Buffer dout, Buffer dqkv);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ptdp::cuda
