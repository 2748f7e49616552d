// What the first, a middle and the last stage of a pipeline cost per microbatch.
#pragma once

#include "cost_model/analytic/transformer_layer.h"

namespace ptdp {

/// Costs per microbatch of everything that does not depend on how layers are spread over stages:
/// shared by all configurations of one (tp, cp, micro_batch_size, sequence_parallel) whose
/// tensor-parallel groups lie on nodes alike.
struct MicrobatchCosts {
  LayerCosts layer;
  PassTime embedding;  ///< First stage, forward and backward.
  PassTime logits;     ///< Last stage: final norm, logits and loss, forward and backward.
  Seconds embedding_accumulation;  ///< Adding the embedding's gradient to earlier microbatches'.
};

/// Embedding: a gather of bsh elements, dropout and their gradients (8 passes over 2bsh bytes), a
/// dense gradient of the table that starts from zeros, and one all-reduce over tp. Logits: a linear
/// layer to V/t features, the loss (loss_traffic), the final norm (7 passes) and one all-reduce of
/// its input gradient. Neither is recomputed. The vocabulary is padded to a multiple of 128·t.
/// Source: Megatron-LM de7dc40f88, megatron/model/ language_model.py, gpt_model.py, mpu/layers.py.
[[nodiscard]] MicrobatchCosts microbatch_costs(const Scenario& scenario,
                                               const ParallelConfig& config);

/// V rounded up to a multiple of 128·t, as Megatron-LM pads it.
[[nodiscard]] std::int64_t padded_vocab_size(const TransformerConfig& model, int tp);

/// Per-microbatch time of the stages of one pipeline.
struct StageCosts {
  PassTime forward;  ///< The layers of one stage.
  PassTime backward;
  PassTime recompute;  ///< Their recomputation.
  PassTime embedding;
  PassTime logits;
  Seconds gradient_accumulation;  ///< Per microbatch after the first, on the slowest stage.
  Seconds overhead;               ///< The stack's, per microbatch: once for each chunk.

  /// A stage that holds layers only.
  [[nodiscard]] Seconds middle() const {
    return forward.total() + backward.total() + recompute.total() + overhead;
  }
  /// The stage that paces the pipeline: with a single stage, all of it.
  [[nodiscard]] Seconds slowest(int pp) const;
  [[nodiscard]] Seconds mean(int pp) const;
};

/// Stages of num_layers/pp layers each. The tied embedding's gradient comes from both of its uses,
/// which a single stage accumulates twice.
[[nodiscard]] StageCosts stage_costs(const Scenario& scenario, const ParallelConfig& config,
                                     const MicrobatchCosts& costs);

}  // namespace ptdp
