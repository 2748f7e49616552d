// What a microbatch costs, however layers are spread over stages.
#pragma once

#include <array>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/layer/transformer_layer.h"

namespace ptdp {

/// Costs per microbatch of everything that does not depend on how layers are spread over stages:
/// shared by all configurations of one (tp, cp, micro_batch_size, sequence_parallel) that all split
/// backward passes or all do not, whose tensor-parallel, context-parallel and expert groups lie
/// on nodes alike and that keep as many cores of a node busy.
struct MicrobatchCosts {
  std::array<LayerCosts, kLayerKinds.size()> layers;  ///< Of the kinds that the model has.
  PassTime embedding;                                 ///< First stage, forward and backward.
  PassTime logits;  ///< Last stage: final norm, logits and loss, forward and backward.
  Seconds embedding_accumulation;  ///< Adding the embedding's gradient to earlier microbatches'.
  Seconds embedding_forward;       ///< The part of `embedding` in the forward pass.
  Seconds logits_forward;          ///< The part of `logits` in the forward pass,
  Seconds logits_weight_gradient;  ///< and in the weight gradient.
};

/// What so many layers of each kind cost together.
[[nodiscard]] LayerCosts sum_of(const MicrobatchCosts& costs, const LayerCounts& counts);

/// Embedding: a gather of bsh elements, dropout and their gradients (8 passes over bsh elements), a
/// dense gradient of the table that starts from zeros, and one all-reduce over tp. Logits: a linear
/// layer to V/t features, the loss (the stack's loss_traffic per logit), the final norm (7 passes)
/// and one all-reduce of its input gradient; with sequence parallelism an all-gather and a
/// reduce-scatter in place of each. Neither is recomputed. The vocabulary is padded to a
/// multiple of 128·t. Forward are 6 of the 8 passes of the embedding, 38 of the 52 bytes of the
/// loss (mpu/cross_entropy.py leaves the softmax for the backward pass) and 2 of the 7 of the norm.
/// Where the operations are measured one by one, they take the place of the passes
/// (element_wise.h). Compute takes as many times as long as compute_factors() says. Modules that
/// predict more tokens add logits, norms, an embedding's gather and a linear layer of 2h to h each;
/// their layers count among those of the last stage.
/// Source: Megatron-LM de7dc40f88, megatron/model/ language_model.py, gpt_model.py, mpu/layers.py.
[[nodiscard]] MicrobatchCosts microbatch_costs(const Scenario& scenario,
                                               const ParallelConfig& config);

}  // namespace ptdp
