// Which layers, and which ends of the model, each pipeline rank holds.
//
// `stage` counts pipeline ranks, 0 … p−1. With more than one chunk a pipeline rank holds several
// virtual stages; which ones depends on the schedule's placement.
#pragma once

#include <utility>
#include <vector>

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Returns how often the end of the model uses a vocabulary table per microbatch: once for the
/// logits, and twice for each module that predicts more tokens (its logits and its embedding).
[[nodiscard]] constexpr double uses_at_the_end(const TransformerConfig& model) {
  return 1.0 + 2.0 * model.mtp_num_layers;
}

/// Returns how often the pipeline holds every layer: 2 in a bidirectional schedule, else 1. Each of
/// two copies serves one half of the microbatches.
[[nodiscard]] constexpr int num_copies(const ParallelConfig& config) {
  return traits_of(config.schedule).placement == StagePlacement::kBidirectional ? 2 : 1;
}
/// Whether pipeline rank `stage` holds the beginning of the model, with the embedding.
[[nodiscard]] bool holds_embedding(const ParallelConfig& config, int rank);
/// Whether pipeline rank `stage` holds the end of the model, with the logits.
[[nodiscard]] bool holds_logits(const ParallelConfig& config, int rank);

/// Calls `visit` with each virtual stage (0 … pp·vpp−1) that pipeline rank `stage` (0 … pp−1)
/// holds.
template <class Visit>
void for_each_virtual_stage(StagePlacement placement, int pp, int vpp, int rank,
                            const Visit& visit) {
  switch (placement) {
    case StagePlacement::kLooped:
      for (int chunk = 0; chunk < vpp; ++chunk) {
        visit(chunk * pp + rank);
      }
      break;
    case StagePlacement::kV:
      visit(rank);
      visit(2 * pp - 1 - rank);
      break;
    case StagePlacement::kBidirectional:
      visit(rank);
      visit(pp - 1 - rank);
      break;
  }
}
/// Calls `visit` with each virtual stage that pipeline rank `stage` (0 … pp−1) of `config` holds.
template <class Visit>
void for_each_virtual_stage(const ParallelConfig& config, int rank, const Visit& visit) {
  for_each_virtual_stage(traits_of(config.schedule).placement, config.pp, config.vpp, rank, visit);
}

/// Returns the first layer of virtual stage `virtual_stage` (0 … pp·vpp−1) and the one behind its
/// last.
[[nodiscard]] std::pair<int, int> layer_range(const TransformerConfig& model,
                                              const ParallelConfig& config, int virtual_stage);
/// Returns the number of layers of the longest virtual stage.
[[nodiscard]] int longest_layer_range(const TransformerConfig& model, const ParallelConfig& config);
/// Counts the layers of virtual stage `virtual_stage` (0 … pp·vpp−1) by kind. The last one includes
/// the layers of modules that predict more tokens, which are of the kind of the model's last layer.
[[nodiscard]] LayerCounts layers_of_virtual_stage(const TransformerConfig& model,
                                                  const ParallelConfig& config, int virtual_stage);
/// Counts the layers that pipeline rank `stage` (0 … pp−1) holds by kind, in all its chunks and
/// copies.
[[nodiscard]] LayerCounts layers_of_rank(const TransformerConfig& model,
                                         const ParallelConfig& config, int rank);
/// The layers of all virtual stages and of all pipeline ranks by kind, counted once.
class LayersOfRanks {
 public:
  LayersOfRanks(const TransformerConfig& model, const ParallelConfig& config);

  /// Returns the layers of a virtual stage (0 … pp·vpp−1), as layers_of_virtual_stage() counts
  /// them.
  [[nodiscard]] const LayerCounts& of_virtual_stage(int virtual_stage) const {
    return of_virtual_stages_[static_cast<std::size_t>(virtual_stage)];
  }
  /// Returns the layers of a pipeline rank (0 … pp−1), as layers_of_rank() counts them.
  [[nodiscard]] const LayerCounts& of_rank(int rank) const {
    return of_ranks_[static_cast<std::size_t>(rank)];
  }

 private:
  std::vector<LayerCounts> of_virtual_stages_;
  std::vector<LayerCounts> of_ranks_;
};
/// Counts the layers of the model by kind, with those of the modules that predict more tokens.
[[nodiscard]] LayerCounts layers_of_model(const TransformerConfig& model);

/// Returns the distance between the pipeline ranks to look at when the heaviest is sought. Where
/// all have equal layers it is pp − 1, since the heaviest is the first or the last; else it is 1.
/// At least 1.
[[nodiscard]] int rank_step(const TransformerConfig& model, const ParallelConfig& config);

}  // namespace ptdp
