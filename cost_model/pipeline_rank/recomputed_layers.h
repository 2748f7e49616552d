// Which layers of a pipeline rank are recomputed, and what recomputing them takes.
#pragma once

#include "cost_model/pipeline_rank/rank_costs.h"

namespace ptdp {

/// Counts the layers of a virtual stage (0 … pp·vpp−1) that the config's recomputation covers, by
/// kind. Where recomputes_some() holds these are the first recompute_num_layers of them, or every
/// recompute_num_layers-th, by the method. Else they are all.
[[nodiscard]] LayerCounts recomputed_of_virtual_stage(const TransformerConfig& model,
                                                      const ParallelConfig& config,
                                                      int virtual_stage);
/// Counts the layers of pipeline rank `stage` (0 … pp−1) that the config's recomputation covers, in
/// all its chunks and copies.
[[nodiscard]] LayerCounts recomputed_of_rank(const TransformerConfig& model,
                                             const ParallelConfig& config, int rank);
/// Counts the layers of the whole model that the config's recomputation covers, each once even
/// where a bidirectional schedule holds it twice.
[[nodiscard]] LayerCounts recomputed_of_model(const TransformerConfig& model,
                                              const ParallelConfig& config);

/// Returns the time that the layers in `recomputed` take to run again per microbatch, under the
/// config's kind of recomputation.
[[nodiscard]] PassTime recomputation(const MicrobatchCosts& costs, const ParallelConfig& config,
                                     const LayerCounts& recomputed);

/// Whether some layers are recomputed and others are not.
[[nodiscard]] constexpr bool recomputes_some(const ParallelConfig& config) {
  return config.recomputes_by_layers() && config.recompute_method != RecomputeMethod::kUniform;
}
/// Returns how many layers are recomputed in one go, from the input of the first: 1 unless the
/// method is uniform.
[[nodiscard]] constexpr int layers_at_once(const ParallelConfig& config) {
  return config.recomputes_by_layers() && config.recompute_method == RecomputeMethod::kUniform
             ? config.recompute_num_layers
             : 1;
}

}  // namespace ptdp
