// Causal self-attention from its definition, which stores the s × s probabilities: what the fused
// one is compared with.
#pragma once

#include <span>

#include "kernels/backend.h"

namespace ptdp {

/// out = dropout(softmax(q·kᵀ/√d))·v and the log of the softmax' sums, laid out as in
/// Backend::attention.
void reference_attention(const Attention& shape, std::span<const double> qkv, std::span<double> out,
                         std::span<double> log_sum);

/// The gradients of qkv.
void reference_attention_backward(const Attention& shape, std::span<const double> qkv,
                                  std::span<const double> dout, std::span<double> dqkv);

}  // namespace ptdp
