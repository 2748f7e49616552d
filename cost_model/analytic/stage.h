// What the GPUs at each place of a pipeline cost per microbatch.
//
// `stage` counts those places, 0 … p−1: with more chunks than one, GPUs hold several virtual stages
// of the model, and which ones depends on the schedule's placement.
#pragma once

#include <utility>
#include <vector>

#include "cost_model/analytic/transformer_layer.h"
#include "cost_model/schedule/schedule.h"

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

/// How often the model's end uses a table of the vocabulary: for the logits, and modules that
/// predict more tokens for theirs and for their embedding.
[[nodiscard]] constexpr double uses_at_the_end(const TransformerConfig& model) {
  return 1.0 + 2.0 * model.mtp_num_layers;
}

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

/// V rounded up to a multiple of 128·t, as Megatron-LM pads it.
[[nodiscard]] std::int64_t padded_vocab_size(const TransformerConfig& model, int tp);

/// Which virtual stages lie on which stage.
[[nodiscard]] StagePlacement placement_of(ScheduleKind schedule);
/// Whether it puts weight gradients off, apart from input gradients.
[[nodiscard]] bool splits_backward(ScheduleKind schedule);
/// How often the pipeline holds every layer: twice where it is bidirectional, each copy for one
/// half of the microbatches.
[[nodiscard]] int num_copies(const ParallelConfig& config);
/// Whether `stage` begins the model, with the embedding, or ends it, with the logits.
[[nodiscard]] bool holds_embedding(const ParallelConfig& config, int stage);
[[nodiscard]] bool holds_logits(const ParallelConfig& config, int stage);

/// Calls `visit` for each virtual stage of the model that the GPUs of `stage` (0 … pp−1) hold.
template <class Visit>
void for_each_virtual_stage(StagePlacement placement, int pp, int vpp, int stage,
                            const Visit& visit) {
  switch (placement) {
    case StagePlacement::kLooped:
      for (int chunk = 0; chunk < vpp; ++chunk) {
        visit(chunk * pp + stage);
      }
      break;
    case StagePlacement::kV:
      visit(stage);
      visit(2 * pp - 1 - stage);
      break;
    case StagePlacement::kBidirectional:
      visit(stage);
      visit(pp - 1 - stage);
      break;
  }
}
template <class Visit>
void for_each_virtual_stage(const ParallelConfig& config, int stage, const Visit& visit) {
  for_each_virtual_stage(placement_of(config.schedule), config.pp, config.vpp, stage, visit);
}

/// The first layer of a virtual stage of the model (0 … pv−1) and the one behind its last.
[[nodiscard]] std::pair<int, int> layer_range(const TransformerConfig& model,
                                              const ParallelConfig& config, int virtual_stage);
/// Layers of the longest virtual stage of the model.
[[nodiscard]] int longest_layer_range(const TransformerConfig& model, const ParallelConfig& config);
/// Layers of a virtual stage of the model (0 … pv−1) by kind; where the model ends those of modules
/// that predict more tokens, too, which are as its last layer.
[[nodiscard]] LayerCounts layers_of_virtual_stage(const TransformerConfig& model,
                                                  const ParallelConfig& config, int virtual_stage);
/// Layers that the GPUs of `stage` (0 … pp−1) hold, in all their chunks and copies.
[[nodiscard]] LayerCounts layers_of_stage(const TransformerConfig& model,
                                          const ParallelConfig& config, int stage);
/// Both, of all virtual stages and of all stages, worked out at once.
class LayersOfStages {
 public:
  LayersOfStages(const TransformerConfig& model, const ParallelConfig& config);

  [[nodiscard]] const LayerCounts& of_virtual_stage(int virtual_stage) const {
    return of_virtual_stages_[static_cast<std::size_t>(virtual_stage)];
  }
  [[nodiscard]] const LayerCounts& of_stage(int stage) const {
    return of_stages_[static_cast<std::size_t>(stage)];
  }

 private:
  std::vector<LayerCounts> of_virtual_stages_;
  std::vector<LayerCounts> of_stages_;
};
/// All layers of the model and of its modules.
[[nodiscard]] LayerCounts layers_of_model(const TransformerConfig& model);

/// Distance between the stages to look at when the heaviest is sought: where all have equal layers
/// it is the first or the last, else it may be any.
[[nodiscard]] int stage_step(const TransformerConfig& model, const ParallelConfig& config);

/// Per-microbatch time of one stage of a pipeline, on average where microbatches go both ways.
struct StageCosts {
  PassTime forward;  ///< The stage's layers.
  PassTime backward;
  PassTime recompute;             ///< Their recomputation.
  PassTime ends;                  ///< Embedding where the model begins, logits where it ends.
  Seconds gradient_accumulation;  ///< Per microbatch after the first.
  Seconds hidden_dispatch;        ///< Of its layers' experts; it is in none of the passes.
  Seconds overhead;               ///< The stack's: once for each chunk.

  [[nodiscard]] Seconds total() const {
    return forward.total() + backward.total() + recompute.total() + ends.total() + overhead;
  }
};

/// Costs of `stage`. The tied embedding's gradient comes from both of its uses, which a single
/// stage accumulates twice.
[[nodiscard]] StageCosts stage_costs(const Scenario& scenario, const ParallelConfig& config,
                                     const MicrobatchCosts& costs, int stage);

/// The stage that paces the pipeline, and the mean time of all.
struct PipelineCosts {
  StageCosts slowest;
  Seconds mean;
};
/// That mean, which does not depend on how layers are split; no more than the slowest stage takes.
[[nodiscard]] Seconds mean_stage_time(const Scenario& scenario, const ParallelConfig& config,
                                      const MicrobatchCosts& costs);
[[nodiscard]] PipelineCosts pipeline_costs(const Scenario& scenario, const ParallelConfig& config,
                                           const MicrobatchCosts& costs);

}  // namespace ptdp
