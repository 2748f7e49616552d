// Time of the attention core: softmax(QKᵀ)V, without its linear layers.
#pragma once

#include <string_view>

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// What the name of a kernel ends with that computes attention with dropout of probabilities, where
/// a stack has a kernel of its own for that.
inline constexpr std::string_view kWithDropout = "-dropout";

/// Returns whether attention is computed product by product and stores its scores. It is so in a
/// stack without a fused kernel, and in every stack with relative positions: kernels of
/// FlashAttention and cuDNN add no scores that depend on the query and its distance to a key.
[[nodiscard]] inline bool is_unfused(const TransformerConfig& model, const StackSpec& stack) {
  return stack.attention == "unfused" || has_relative_positions(model);
}

/// Forward and backward time of one layer's attention core, per microbatch.
struct AttentionTime {
  Seconds forward;
  Seconds backward;
};

/// What one pass of an attention core does and moves.
struct PassWork {
  Flops flops;  ///< FLOPs that attention_time() counts for it.
  /// Traffic of memory. Of fused kernels it is the least: each tensor that enters or leaves once.
  Bytes bytes;
};
/// Work of one layer's attention core, per microbatch.
struct AttentionWork {
  PassWork forward;
  PassWork backward;
};
/// Computes the work that attention_time() times, for the same sequences and heads.
///
/// Fused kernels read queries, keys and values and write the output; backward they read also the
/// output and its gradient, and write three gradients. Unfused ones move matmul_bytes() of each
/// product and what layer_traffic() has for softmax and dropout.
[[nodiscard]] AttentionWork attention_work(const TransformerConfig& model, int micro_batch_size,
                                           int tp, const StackSpec& stack);

/// Time of attention of `micro_batch_size` sequences over a/t heads. `check(scenario)` must have
/// accepted the pair of GPU and stack.
///
/// Unfused: batched products (QKᵀ and PV forward, four of them backward) and the softmax and
/// dropout passes of layer_traffic(). A window masks scores and saves none of them. Relative
/// positions double QKᵀ and its two gradients: queries are multiplied by the positions' keys, too.
///
/// Fused: the causal half of the FLOPs at the GPU's rate for the stack's kernel and the width of
/// query heads. Forward they are 2bs²h/t, or bs²a(d_q + d_v)/t when query and value heads differ in
/// width. Backward they are 2.5 times as many, which includes recomputing QKᵀ. Source:
/// FlashAttention-2 (arXiv:2307.08691) section 4.1 for the way of counting. With dropout the rate
/// is that of the kernel whose name ends with kWithDropout, if the GPU has one.
///
///   t = start + FLOPs / (R · peak) · (1 + s₀/s)
///
/// where R = AttentionRate::forward or backward, s₀ = half_rate_length or, backward,
/// backward_half_rate_length. A window has fewer FLOPs, and s is twice the tokens that a token
/// attends to there (attended_tokens()), as without one. Sources: NVIDIA's aiconfigurator-core
/// 0.12.0, kernels of vLLM; PyTorch's kernels on an H200 (tests/validation/kernels).
///
/// A kernel's entry for the width of the heads comes first, then its entry for any width. Without
/// both the nearest width counts, of two as near the narrower, whose rate is lower.
///
/// A GPU's measured times of attention, with dropout or without as the model has it, correct the
/// fused times (MeasuredOperation), on a single core whatever the number of heads. A window takes
/// the correction of its whole sequence.
///
/// Where the stack is deterministic, a fused backward pass takes 574.7/361.3 times as long, as that
/// of FlashAttention-3 on an H100 does (Dao-AILab/flash-attention, pull request 1893: "non-det" and
/// "naive det", 8192 tokens, heads of 128). Other kernels and GPUs are taken to lose as much.
[[nodiscard]] AttentionTime attention_time(const TransformerConfig& model, int micro_batch_size,
                                           int tp, const GpuSpec& gpu, const StackSpec& stack);

}  // namespace ptdp
