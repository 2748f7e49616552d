// Which layers of a stage recomputation is of.
#pragma once

#include "cost_model/stage/stage.h"

namespace ptdp {

/// Layers of a virtual stage that the config's recomputation is of: the first so many, or every so
/// many-th, where recomputes_by_layers() and the method is not uniform; else all.
[[nodiscard]] LayerCounts recomputed_of_virtual_stage(const TransformerConfig& model,
                                                      const ParallelConfig& config,
                                                      int virtual_stage);
/// The same of all chunks and copies of the GPUs of `stage`.
[[nodiscard]] LayerCounts recomputed_of_stage(const TransformerConfig& model,
                                              const ParallelConfig& config, int stage);
/// The same of the whole model, once.
[[nodiscard]] LayerCounts recomputed_of_model(const TransformerConfig& model,
                                              const ParallelConfig& config);

/// What so many layers do again for a microbatch, as the config's recomputation has it.
[[nodiscard]] PassTime recomputation(const MicrobatchCosts& costs, const ParallelConfig& config,
                                     const LayerCounts& recomputed);

/// Whether some layers are recomputed and others are not.
[[nodiscard]] constexpr bool recomputes_some(const ParallelConfig& config) {
  return config.recomputes_by_layers() && config.recompute_method != RecomputeMethod::kUniform;
}
/// Layers that are recomputed in one go, from the input of the first: 1 unless uniform.
[[nodiscard]] constexpr int layers_at_once(const ParallelConfig& config) {
  return config.recomputes_by_layers() && config.recompute_method == RecomputeMethod::kUniform
             ? config.recompute_num_layers
             : 1;
}

}  // namespace ptdp
