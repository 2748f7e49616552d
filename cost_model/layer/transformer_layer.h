// What one transformer layer costs per microbatch under tensor and sequence parallelism.
#pragma once

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/pass_time.h"
#include "cost_model/units.h"

namespace ptdp {

/// One layer, per microbatch.
struct LayerCosts {
  PassTime forward;
  PassTime backward;
  PassTime selective;             ///< What selective recomputation repeats, communication too.
  PassTime unrepeated;            ///< The part of `forward` that full recomputation leaves out.
  Seconds gradient_accumulation;  ///< Adding weight gradients to those of earlier microbatches.
  PassTime weight_gradient;       ///< The part of `backward` for which no other layer waits.
  Seconds hidden_dispatch;        ///< Of experts in both passes, behind another microbatch's.

  /// What is done again before the backward pass.
  [[nodiscard]] PassTime recompute(Recompute kind) const;
  LayerCosts& operator+=(const LayerCosts& other);
  friend LayerCosts operator*(const LayerCosts& layer, double factor);
};

/// Elements that tensor parallelism makes each GPU send per layer of a kind and microbatch: for GPT
/// those of collectives.h's formula for its bsh, else by the widths that are gathered and reduced.
/// Sequence parallelism's all-gathers count `gathered` times: less where they are of fewer bytes;
/// those of inputs run `times_again` for weight gradients; full recomputation repeats the forward
/// pass to its end.
[[nodiscard]] double tensor_parallel_elements(const TransformerConfig& model,
                                              const ParallelConfig& config, LayerKind kind,
                                              double gathered = 1.0, double times_again = 1.0);

/// Those of them that full recomputation leaves out: what a dense MLP sends behind its last
/// product, where recomputation stops before that.
[[nodiscard]] double unrepeated_elements(const TransformerConfig& model,
                                         const ParallelConfig& config, LayerKind kind,
                                         const StackSpec& stack);

/// Bytes of an element that sequence parallelism gathers for a linear layer.
[[nodiscard]] double gathered_activation_bytes(const StackSpec& stack);

/// Costs of a layer of a kind with the config's tp, cp, ep, etp, micro_batch_size and
/// sequence_parallel, and by whether its schedule splits backward passes; the other keys matter for
/// where groups lie. Structure:
///   - four linear layers (QKV, projection, h→4h, 4h→h), each with a forward product and two
///     backward ones; of latent attention two compressions, which every rank of a tensor-parallel
///     group makes of its own tokens, and two decompressions in place of QKV;
///   - experts, and what brings tokens to them, in place of the MLP (expert_layer.h); the shared
///     ones are an MLP;
///   - the attention core (operations/attention.h; of sequences that GPUs share, with what it waits
///     for, context_parallel.h) and the traffic of the rest (memory_bound.h);
///   - tensor-parallel collectives of bsh elements: two all-reduces in each pass, or with sequence
///     parallelism an all-gather and a reduce-scatter in place of each, and one more all-gather for
///     the inputs of each column-parallel weight gradient; of latent attention's inputs only what
///     is compressed, and none for experts. A stack that overlaps runs the backward
///     ones of each column-parallel layer behind its weight gradient (the repeated all-gather
///     behind its input gradient), which `overlap_slowdown` of their time costs. The two layers
///     count as one; those of this project's runtime each by itself, and only where a schedule does
///     not put weight gradients off;
///   - casts of the factors of products, where linear layers are in 8 bits (fp8_casts.h), and the
///     all-gathers of sequence parallelism of as few, where the recipe says so;
///   - kernels (layer_parts.h), each with its latency, or launched one by one by the host where
///     that takes longer than running them; where the operations are measured one by one
///     (element_wise.h) their times contain the latency, and take the place of the traffic;
///   - compute as many times as long as compute_factors() says (core_sharing.h), and beside the
///     collectives what their members wait for the slowest of them;
///   - a recomputation of the forward pass, or where it stops early of all but the second product
///     of a dense MLP and what follows: its collective, and a residual sum of 3 passes over the
///     hidden states;
///   - a weight gradient that consists of the four products and their share of the launches. Other
///     stacks' hides collectives of the backward pass where it is put off, too: it is then that of
///     another microbatch.
/// Source: SC21 (arXiv:2104.04473) section 2.3; Korthikanti et al. (arXiv:2205.05198) section 4.2;
/// Megatron-LM megatron/mpu/layers.py at de7dc40f88 and 739cb43dae.
[[nodiscard]] LayerCosts layer_costs(const Scenario& scenario, const ParallelConfig& config,
                                     LayerKind kind = {});

}  // namespace ptdp
