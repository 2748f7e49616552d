// Causal self-attention by its definition, which stores the s × s probabilities. Fused
// implementations are compared with it.
#pragma once

#include <span>

#include "kernels/backend.h"

namespace ptdp {

/// Computes out = dropout(softmax(q·kᵀ/√d))·v and the log of the softmax sums, laid out as in
/// Backend::attention.
void reference_attention(const Attention& shape, std::span<const double> qkv, std::span<double> out,
                         std::span<double> log_sum);

/// Computes the gradient of qkv from that of out, laid out as in Backend::attention_backward.
void reference_attention_backward(const Attention& shape, std::span<const double> qkv,
                                  std::span<const double> dout, std::span<double> dqkv);

}  // namespace ptdp
