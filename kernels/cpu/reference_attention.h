// Causal self-attention by its definition, which stores the s × s probabilities. Fused
// implementations are compared with it.
#pragma once

#include <span>

#include "kernels/backend.h"

namespace ptdp {

/// Computes out [s, b, heads, d] = dropout(softmax(scores))·v, and the logs of the softmax sums
/// [b, heads, s]. Attention says what scores are and which keys a query sees. `qkv` has the
/// queries, the keys and the values of each token, [s, b, heads + 2·key_heads, d].
void reference_attention(const Attention& shape, std::span<const double> qkv, std::span<double> out,
                         std::span<double> log_sum);

/// Computes the gradient of qkv from that of out, laid out as in reference_attention().
void reference_attention_backward(const Attention& shape, std::span<const double> qkv,
                                  std::span<const double> dout, std::span<double> dqkv);

}  // namespace ptdp
