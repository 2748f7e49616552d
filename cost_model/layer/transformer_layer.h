// What one transformer layer costs per microbatch under tensor and sequence parallelism.
#pragma once

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/pass_time.h"
#include "cost_model/units.h"

namespace ptdp {

/// Costs of one layer, per microbatch on one rank.
struct LayerCosts {
  PassTime forward;    ///< Time of the forward pass.
  PassTime backward;   ///< Time of the backward pass: input and weight gradients, no recomputation.
  PassTime selective;  ///< Time of what selective recomputation repeats, communication included.
  PassTime unrepeated;  ///< The part of `forward` that full recomputation leaves out.
  /// Time to add weight gradients to those of earlier microbatches.
  Seconds gradient_accumulation;
  PassTime weight_gradient;  ///< The part of `backward` for which no other layer waits.
  /// Expert communication of both passes that runs behind another microbatch's compute; part of
  /// neither pass.
  Seconds hidden_dispatch;

  /// Returns the time of what a kind of recomputation does again before the backward pass.
  [[nodiscard]] PassTime recompute(Recompute kind) const;
  LayerCosts& operator+=(const LayerCosts& other);
  friend LayerCosts operator*(const LayerCosts& layer, double factor);
};

/// Returns the elements that tensor parallelism makes each GPU send per layer of `kind` and
/// microbatch. For GPT they are those of collectives.h's formula for its bsh, else they follow the
/// widths that are gathered and reduced. Sequence parallelism's all-gathers count `gathered` times,
/// less than 1 where they are of fewer bytes. Those of inputs run `times_again` for weight
/// gradients. `gathered_heads` are the elements of a token that the group gathers besides in each
/// pass (split_key_heads.h). Those of an all-reduce count twice there (split_norms.h). Full
/// recomputation repeats the forward pass to its end.
[[nodiscard]] double tensor_parallel_elements(const TransformerConfig& model,
                                              const ParallelConfig& config, LayerKind kind,
                                              double gathered = 1.0, double times_again = 1.0,
                                              double gathered_heads = 0.0);

/// Returns the elements that full recomputation need not send again per layer and microbatch. These
/// are what a dense MLP sends behind its last product, where recomputation stops before that; else
/// 0.
[[nodiscard]] double unrepeated_elements(const TransformerConfig& model,
                                         const ParallelConfig& config, LayerKind kind,
                                         const StackSpec& stack);

/// Traffic of a layer's element-wise work, per microbatch on one rank, where it is timed by that.
struct ElementWiseTraffic {
  Bytes forward;
  Bytes backward;
  Bytes looked_up_forward;   ///< Copies of rows by index, which look_up_time() times.
  Bytes looked_up_backward;  ///< Copies of rows by index in the backward pass.
};
/// Computes the traffic of a layer of `kind` outside products, fused attention, experts and casts:
/// layer_traffic() with what split heads, norms and copies of sequences add. Not where
/// lists_operations().
[[nodiscard]] ElementWiseTraffic element_wise_traffic(const Scenario& scenario,
                                                      const ParallelConfig& config, LayerKind kind);

/// Computes the costs of a layer of `kind` per microbatch. They depend on the config's tp, cp, ep,
/// etp, micro_batch_size, sequence_parallel and recompute_modules, and on whether its schedule
/// splits backward passes. The other keys matter only for casts_shards(), hides_dispatch(), busy
/// cores, and where groups lie. A layer consists of:
///   - four linear layers (QKV, projection, h→4h, 4h→h), each with a forward product and two
///     backward ones. Latent attention has two compressions and two decompressions in place of QKV;
///     every rank of a tensor-parallel group compresses its own tokens;
///   - with relative positions, a fifth that projects a sequence's distances to keys, once for all
///     sequences of a microbatch and with one backward product, the weight gradient;
///   - experts, and what brings tokens to them, in place of the MLP (expert_layer.h). The shared
///     ones are an MLP;
///   - the attention core (operations/attention.h) and the traffic of the rest (memory_bound.h).
///     Where GPUs share sequences, the core includes what it waits for (context_parallel.h);
///   - tensor-parallel collectives of bsh elements, two all-reduces in each pass. Sequence
///     parallelism has an all-gather and a reduce-scatter in place of each, and one more all-gather
///     for the inputs of each column-parallel weight gradient. Of latent attention's inputs only
///     what is compressed is gathered, and nothing for experts;
///   - where tp exceeds the key heads, an all-gather of heads forward and a reduce-scatter of their
///     gradients backward (split_key_heads.h), which nothing hides;
///   - where norms of queries and keys reach over ranks, an all-reduce of a number for each row in
///     each pass (split_norms.h), which nothing hides;
///   - overlap of these collectives, in a stack that has it. The backward ones of each
///     column-parallel layer run behind its weight gradient, the repeated all-gather behind its
///     input gradient. That costs `overlap_slowdown` of their time. The two column-parallel layers
///     count as one. With this project's runtime each counts by itself, and only where a schedule
///     does not put weight gradients off;
///   - casts of the factors of products, where linear layers are in 8 bits (fp8_casts.h).
///     All-gathers of sequence parallelism are in 8 bits where the recipe says so;
///   - kernels (layer_parts.h), each with its latency, or launched one by one by the host where
///     that takes longer than running them. Where the operations are measured one by one
///     (element_wise.h), their times contain the latency and take the place of the traffic;
///   - compute_factors(), by which compute times are multiplied (core_contention.h), and the wait
///   for
///     the slowest member, which is added to the collectives;
///   - a recomputation of the forward pass. Where it stops early, it leaves out the second product
///     of a dense MLP and what follows: its collective, and a residual sum of 3 passes over the
///     hidden states;
///   - a weight gradient that consists of the four products and their share of the launches. In
///     other stacks than this project's runtime, a weight gradient that is put off hides
///     collectives of a backward pass, too: that of another microbatch.
/// Source: SC21 (arXiv:2104.04473) section 2.3; Korthikanti et al. (arXiv:2205.05198) section 4.2;
/// Megatron-LM megatron/mpu/layers.py at de7dc40f88 and 739cb43dae.
[[nodiscard]] LayerCosts layer_costs(const Scenario& scenario, const ParallelConfig& config,
                                     LayerKind kind = {});

}  // namespace ptdp
