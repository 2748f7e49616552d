// Stands in for with_cudnn.cpp in builds without cuDNN: own kernels compute all attention.
#include <cassert>

#include "kernels/cuda/fused_attention.h"

namespace ptdp::cuda {

struct FusedAttention::State {};

FusedAttention::FusedAttention(Backend&, bool) {}
FusedAttention::~FusedAttention() = default;

// NOLINTBEGIN(readability-convert-member-functions-to-static): methods as with_cudnn.cpp has them
std::string FusedAttention::refusal(const AttentionCall&) {
  return "built without cuDNN";
}
std::string FusedAttention::refusal(const AttentionBackwardCall&) {
  return "built without cuDNN";
}

void FusedAttention::forward(cudaStream_t, const AttentionCall&) {
  assert(false && "not supported");
}

void FusedAttention::backward(cudaStream_t, const AttentionBackwardCall&) {
  assert(false && "not supported");
}
// NOLINTEND(readability-convert-member-functions-to-static)

}  // namespace ptdp::cuda
