// Which layers, and which ends of the model, each place of a pipeline holds.
//
// `stage` counts those places, 0 … p−1: with more chunks than one, GPUs hold several virtual stages
// of the model, and which ones depends on the schedule's placement.
#pragma once

#include <utility>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// How often the model's end uses a table of the vocabulary: for the logits, and modules that
/// predict more tokens for theirs and for their embedding.
[[nodiscard]] constexpr double uses_at_the_end(const TransformerConfig& model) {
  return 1.0 + 2.0 * model.mtp_num_layers;
}

/// How often the pipeline holds every layer: twice where it is bidirectional, each copy for one
/// half of the microbatches.
[[nodiscard]] constexpr int num_copies(const ParallelConfig& config) {
  return traits_of(config.schedule).placement == StagePlacement::kBidirectional ? 2 : 1;
}
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
  for_each_virtual_stage(traits_of(config.schedule).placement, config.pp, config.vpp, stage, visit);
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
/// Counts the layers of all virtual stages and of all stages at once.
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

}  // namespace ptdp
