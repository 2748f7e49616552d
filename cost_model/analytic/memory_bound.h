// Bytes moved by the operations of a layer that memory bandwidth limits, and their time.
#pragma once

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// HBM traffic of one layer and microbatch outside the matrix products, with the kernels that
/// Megatron-LM fuses (bias-GELU, bias-dropout-add, scale-mask-softmax) fused. In units of
/// A = 2bsh (the layer's activations; A/t on the sequence-parallel part), A/t, and
/// S = 2b(a/t)s² (attention scores):
///
///   forward   layer norm ×2: 4A, bias-dropout-add ×2: 7A; QKV bias 6A/t, context transpose 2A/t,
///             bias-GELU 8A/t
///   backward  layer norm ×2: 10A, bias-dropout-add ×2 with the bias gradient: 7A, residual
///             gradients ×2: 6A; bias-GELU with the bias gradient 16A/t, QKV split and bias
///             gradient 9A/t, context transpose 2A/t
///   attention (unfused) softmax and dropout: 4.5S forward, 5.5S backward
///
/// so 11A + 16A/t and 23A + 27A/t. Source: counted from Megatron-LM de7dc40f88,
/// megatron/model/transformer.py, with one-byte dropout masks.
struct LayerTraffic {
  Bytes forward;
  Bytes backward;
  Bytes attention_forward;  ///< Softmax and dropout; nothing where attention is fused.
  Bytes attention_backward;
};
[[nodiscard]] LayerTraffic layer_traffic(const TransformerConfig& model, int micro_batch_size,
                                         int tp, bool is_sequence_parallel);

/// Traffic of the loss over `tokens` of which this GPU holds `vocabulary` logits each, forward and
/// backward: 52 bytes per logit (fp32 copy 6, maximum 4, shift 8, exponential 8, sum 4, division 8,
/// gradient 8, and back to 2 bytes 6). Source: counted from Megatron-LM de7dc40f88,
/// megatron/mpu/cross_entropy.py.
[[nodiscard]] Bytes loss_traffic(double tokens, double vocabulary);

/// Time to move `traffic` by element-wise kernels: bytes / (memory_efficiency · bandwidth).
[[nodiscard]] Seconds memory_bound_time(Bytes traffic, const GpuSpec& gpu);

}  // namespace ptdp
