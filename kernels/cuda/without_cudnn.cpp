// Where there is no cuDNN: own kernels compute all attention.
#include <cassert>

#include "kernels/cuda/fused_attention.h"

namespace ptdp::cuda {

struct FusedAttention::State {};

FusedAttention::FusedAttention(Backend&, bool) {}
FusedAttention::~FusedAttention() = default;

std::string FusedAttention::refusal(const Attention&, DataType) {
  return "built without cuDNN";
}

void FusedAttention::forward(cudaStream_t, const Attention&, Buffer, Buffer, Buffer) {
  assert(false && "not supported");
}

void FusedAttention::backward(cudaStream_t, const Attention&, Buffer, Buffer, Buffer, Buffer,
                              Buffer) {
  assert(false && "not supported");
}

}  // namespace ptdp::cuda
