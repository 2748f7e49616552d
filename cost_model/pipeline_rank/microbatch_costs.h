// What a microbatch costs, however layers are spread over stages.
#pragma once

#include <array>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/layer/transformer_layer.h"

namespace ptdp {

/// Costs per microbatch of everything that does not depend on how layers are spread over the
/// pipeline. Configurations share them if they agree in all of the following:
///   - tp, cp, ep, etp, micro_batch_size, sequence_parallel and recompute_modules;
///   - whether the schedule splits backward passes, whether shards are cast (casts_shards()), and
///     whether messages of experts are hidden (hides_dispatch());
///   - how tensor-parallel, context-parallel and expert groups lie on nodes, and how many cores of
///     each node are busy;
///   - how slow the slowest of all GPUs is (slowest_card_factor()).
struct MicrobatchCosts {
  /// Costs of one layer by kind, in the order of kLayerKinds; set for the kinds that the model has.
  std::array<LayerCosts, kLayerKinds.size()> layers;
  PassTime embedding;  ///< Embedding, forward and backward, on the first virtual stage.
  /// Final norm, logits and loss, forward and backward, on the last virtual stage.
  PassTime logits;
  /// Time to add the embedding's gradient to earlier microbatches'.
  Seconds embedding_accumulation;
  Seconds embedding_forward;       ///< The part of `embedding` in the forward pass.
  Seconds logits_forward;          ///< The part of `logits` in the forward pass.
  Seconds logits_weight_gradient;  ///< The part of `logits` that forms weight gradients.
};

/// Returns what `counts` layers of each kind cost together per microbatch.
[[nodiscard]] LayerCosts sum_of(const MicrobatchCosts& costs, const LayerCounts& counts);

/// Computes the costs of a microbatch by the following count.
///
/// Embedding: 8 passes over bsh elements (a gather, dropout and their gradients), of which the
/// forward pass has 6. A dense gradient of the table that starts from zeros, and one all-reduce
/// over tp, come on top.
///
/// Logits: a linear layer to V/t features, the loss (the stack's loss_traffic per logit), the final
/// norm (7 passes) and one all-reduce of its input gradient. The forward pass has 2 of the norm's 7
/// passes and 38 of the 52 bytes of the loss: mpu/cross_entropy.py leaves the softmax for the
/// backward pass. The vocabulary is padded to a multiple of 128·t.
///
/// With sequence parallelism an all-gather and a reduce-scatter take the place of each all-reduce.
/// Neither end is recomputed. Operations that are measured one by one take the place of the passes
/// (element_wise.h). Compute times are multiplied by compute_factors(). Each module that predicts
/// more tokens adds logits, norms, an embedding's gather and a linear layer of 2h to h. The layers
/// of these modules count among those of the last virtual stage.
///
/// Source: Megatron-LM de7dc40f88, megatron/model/ language_model.py, gpt_model.py, mpu/layers.py.
[[nodiscard]] MicrobatchCosts microbatch_costs(const Scenario& scenario,
                                               const ParallelConfig& config);

}  // namespace ptdp
