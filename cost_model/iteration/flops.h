// Floating-point operations of a training iteration under each convention of the literature.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

// Symbols: B global batch [sequences], s sequence length, l layers, h hidden size, V vocabulary.
// All formulas count matrix products only, attention as if not causal but within its window. They
// are written for GPT (h wide heads together, an MLP of 4h). Query groups, gated MLPs, latent
// attention and other widths are counted alike, product by product. Of experts those that a token
// visits count. Modules that predict more tokens count as layers and logits of their own. Relative
// positions have scores of their own, as many as tokens have. Projecting the positions to keys
// counts as hardware FLOPs of a configuration alone: the model needs it once for an iteration, not
// by token. Chinchilla's own count (arXiv:2203.15556 appendix F) leaves relative positions out.

/// Returns the model FLOPs F = 72Bslh²(1 + s/(6h) + V/(12lh)), forward and backward, nothing
/// recomputed. They are the numerator of MFU (model FLOPs utilization). Source: Korthikanti et al.
/// (arXiv:2205.05198) appendix A.
[[nodiscard]] Flops model_flops(const TransformerConfig& model, std::int64_t global_batch_size);

/// Returns the model FLOPs with half of the attention scores, those of tokens before. Megatron-LM
/// reports these since 2025-03.
[[nodiscard]] Flops causal_model_flops(const TransformerConfig& model,
                                       std::int64_t global_batch_size);

/// Returns the FLOPs of the model's matrices in an iteration: model_flops() without attention's.
[[nodiscard]] Flops linear_flops(const TransformerConfig& model, std::int64_t global_batch_size);

/// Returns SC21's hardware FLOPs F = 96Bslh²(1 + s/(6h) + V/(16lh)), every layer's forward pass
/// done twice. Source: SC21 (arXiv:2104.04473) eq. 3.
[[nodiscard]] Flops sc21_flops(const TransformerConfig& model, std::int64_t global_batch_size);

/// Returns the hardware FLOPs with selective recomputation, F = 72Bslh²(1 + s/(3h) + V/(12lh)).
/// Source: Korthikanti et al. appendix A. Counting operations gives 4/3·s/(6h) in place of s/(3h),
/// up to 2 % less. The published HFU figures use the formula as printed, so this does too.
[[nodiscard]] Flops selective_recompute_flops(const TransformerConfig& model,
                                              std::int64_t global_batch_size);

/// Returns the FLOPs that the hardware executes, by kind of recomputation: model_flops(),
/// selective_recompute_flops() or sc21_flops(). Full recomputation counts as a forward pass
/// although a stack may stop before its last product. These are the numerator of HFU (hardware
/// FLOPs utilization), of "% of peak", and of the TFLOP/s that SC21 and this project report.
[[nodiscard]] Flops hardware_flops(const TransformerConfig& model, std::int64_t global_batch_size,
                                   Recompute recompute);

/// Returns the FLOPs that the hardware executes under a configuration. Selective recomputation adds
/// the products of its modules (core_attn by selective_recompute_flops()). Full recomputation of
/// some layers adds their share of what recomputing all layers adds. Every microbatch projects
/// relative positions to keys in each layer, and forms that matrix's gradient.
[[nodiscard]] Flops hardware_flops(const TransformerConfig& model, std::int64_t global_batch_size,
                                   const ParallelConfig& config);

/// Returns the FLOPs of an iteration as `count` says.
[[nodiscard]] Flops counted_flops(FlopCount count, const TransformerConfig& model,
                                  std::int64_t global_batch_size, const ParallelConfig& config);

/// Returns flops / (time · gpus · peak): MFU of model_flops(), HFU of hardware_flops(). Source:
/// PaLM (arXiv:2204.02311) appendix B for MFU; Korthikanti et al. section 6.3 for HFU.
[[nodiscard]] double utilization(Flops flops, Seconds time, std::int64_t gpus, FlopsPerSecond peak);

/// Returns the end-to-end training time ≈ 8TP/(nX) for T tokens, P parameters, n GPUs of X achieved
/// FLOP/s each, counting SC21's hardware FLOPs. Source: SC21 eq. 4. Holds while the terms in s and
/// V are small.
[[nodiscard]] Seconds sc21_training_time(double tokens, double parameters, std::int64_t gpus,
                                         FlopsPerSecond achieved_per_gpu);

}  // namespace ptdp
