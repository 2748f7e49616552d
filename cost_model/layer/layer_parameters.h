// Parameters of one layer that one GPU holds.
#pragma once

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Parameters, or what goes with them, by who holds the same: experts have data-parallel groups of
/// their own.
struct RankParameters {
  double dense = 0.0;    ///< As many times as there are dp·cp ranks that share them.
  double experts = 0.0;  ///< As many times as expert_data_size() says.
  /// The part of `dense` that a recipe for 8 bits covers: weights of layers' matrices but the
  /// router's, and none of the ends of the model. Of experts it covers all.
  double matrices = 0.0;

  [[nodiscard]] double total() const { return dense + experts; }
  RankParameters& operator+=(const RankParameters& other);
  friend RankParameters operator*(const RankParameters& parameters, double factor);
};

/// A rank's part of one layer: its matrices and column-parallel biases over t, norms, row-parallel
/// biases, router and compressions in full, its experts over ep·etp.
[[nodiscard]] RankParameters layer_parameters_of_rank(const TransformerConfig& model,
                                                      const ParallelConfig& config, LayerKind kind);

/// Weights of a layer's matrices on a rank.
[[nodiscard]] double weights_of_rank(const TransformerConfig& model, const ParallelConfig& config,
                                     LayerKind kind);

}  // namespace ptdp
