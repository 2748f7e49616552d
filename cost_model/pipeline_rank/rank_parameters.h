// Parameters that one GPU of a pipeline rank holds, by the groups that share them.
#pragma once

#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/layer/layer_parameters.h"

namespace ptdp {

/// Returns the parameters that a GPU of pipeline rank `stage` (0 … pp−1) holds besides layers.
/// Where the model begins these are the padded embedding over t and learned positions. Where it
/// ends they are the padded output table over t, the final norm and the modules that predict more
/// tokens. These modules share logits and embedding with the model; untied embeddings need a copy
/// where the model's is on another rank. Tied tables on one rank count once.
[[nodiscard]] double end_parameters(const TransformerConfig& model, const ParallelConfig& config,
                                    int rank);

/// Returns the parameters that a GPU of pipeline rank `stage` (0 … pp−1) holds: its layers' and
/// end_parameters(). In a bidirectional schedule these are the parameters of two virtual stages.
[[nodiscard]] RankParameters rank_parameters(const TransformerConfig& model,
                                             const ParallelConfig& config, int rank);

/// Returns rank_parameters() of every pipeline rank, with what their layers share counted once.
[[nodiscard]] std::vector<RankParameters> parameters_by_rank(const TransformerConfig& model,
                                                             const ParallelConfig& config);

/// Returns the parameters of a GPU of the pipeline rank that holds most in total.
[[nodiscard]] RankParameters most_parameters(const TransformerConfig& model,
                                             const ParallelConfig& config);

/// Returns how many of the `parameters` on each rank fall to one rank's shard under ZeRO. Shards
/// are over all GPUs that hold the same parameters, or with dp_replicate above 1 over those that
/// share one replica. Holds for gradients and optimizer states alike.
[[nodiscard]] double shard_of(const RankParameters& parameters, const ParallelConfig& config);

/// Returns how many of the `parameters` on each rank its optimizer updates: shard_of() from ZeRO-1
/// on, else all.
[[nodiscard]] double updated_by_rank(const RankParameters& parameters,
                                     const ParallelConfig& config);

/// Whether any two ranks hold the same parameters: all of them, or those of experts alone.
[[nodiscard]] bool has_replicas(const TransformerConfig& model, const ParallelConfig& config);

}  // namespace ptdp
