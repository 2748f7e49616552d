// Time of the attention core: softmax(QKᵀ)V, without its linear layers.
#pragma once

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Forward and backward time of one layer's attention core, per microbatch.
struct AttentionTime {
  Seconds forward;
  Seconds backward;
};

/// Attention of `micro_batch_size` sequences over a/t heads.
///
/// Unfused: batched products (QKᵀ and PV forward, four of them backward) and the softmax and
/// dropout passes of layer_traffic(); a window masks scores and saves none of them. Fused: the
/// causal half of the FLOPs, 2bs²h/t forward (bs²a(d_q + d_v)/t where query and value heads differ
/// in width) and 2.5 times that backward (which recomputes QKᵀ), at the GPU's rate for the stack's
/// kernel; source: FlashAttention-2 (arXiv:2307.08691) section 4.1 for the way of counting. Where
/// the GPU has measured times of attention, with dropout or without as the model has it, they
/// correct the fused times (MeasuredOperation); a window takes its share of them. `check(scenario)`
/// must have accepted the pair of GPU and stack.
[[nodiscard]] AttentionTime attention_time(const TransformerConfig& model, int micro_batch_size,
                                           int tp, const GpuSpec& gpu, const StackSpec& stack);

}  // namespace ptdp
