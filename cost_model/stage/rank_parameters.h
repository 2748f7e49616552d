// Parameters that one GPU of a stage holds, by the groups that share them.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/layer/layer_parameters.h"

namespace ptdp {

/// Parameters that a GPU of `stage` (0 … pp−1) holds beside layers: the padded embedding over t
/// where the model begins and where it ends (learned positions where it begins; the final norm and
/// the modules that predict more tokens where it ends, whose embedding and logits are those of the
/// model).
[[nodiscard]] double end_parameters(const TransformerConfig& model, const ParallelConfig& config,
                                    int stage);

/// These and its layers'. A bidirectional schedule holds two stages' parameters.
[[nodiscard]] RankParameters stage_parameters(const TransformerConfig& model,
                                              const ParallelConfig& config, int stage);

/// Of the stage that holds most.
[[nodiscard]] RankParameters most_parameters(const TransformerConfig& model,
                                             const ParallelConfig& config);

/// Of `parameters` on each rank, or of what goes with them, a rank's part where ZeRO shards them
/// over all that hold the same, or over those that share one of dp_replicate replicas.
[[nodiscard]] double shard_of(const RankParameters& parameters, const ParallelConfig& config);

/// Of `parameters` on each rank, or of what goes with them, those that its optimizer updates: a
/// shard from ZeRO-1 on, else all.
[[nodiscard]] double updated_by_rank(const RankParameters& parameters,
                                     const ParallelConfig& config);

/// Whether other ranks hold the same parameters as one: of all, or of experts alone.
[[nodiscard]] bool has_replicas(const TransformerConfig& model, const ParallelConfig& config);

}  // namespace ptdp
