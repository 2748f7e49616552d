// Parameters of one layer that one GPU holds.
#pragma once

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Numbers of parameters, or of bytes that go with them, by which group of ranks holds the same.
/// Experts have data-parallel groups of their own.
struct RankParameters {
  /// Parameters outside experts, held by all dp·cp ranks of a data-parallel group.
  double dense = 0.0;
  double experts = 0.0;  ///< Parameters of experts, held by expert_data_size() ranks.
  /// The part of `dense` that a recipe for 8 bits covers: weights of layers' matrices except the
  /// router's, and none of the ends of the model. Experts' parameters are all covered.
  double matrices = 0.0;

  /// Returns `dense` + `experts`; `matrices` is part of `dense`.
  [[nodiscard]] double total() const { return dense + experts; }
  RankParameters& operator+=(const RankParameters& other);
  friend bool operator==(const RankParameters&, const RankParameters&) = default;
  friend RankParameters operator*(const RankParameters& parameters, double factor);
};

/// Returns a rank's part of the parameters of one layer. Matrices and column-parallel biases are
/// split over t. Norms, row-parallel biases, router and compressions are whole. Experts are split
/// over ep·etp.
[[nodiscard]] RankParameters layer_parameters_of_rank(const TransformerConfig& model,
                                                      const ParallelConfig& config, LayerKind kind);

/// Returns the number of weights of a layer's matrices on a rank, experts and router included.
[[nodiscard]] double weights_of_rank(const TransformerConfig& model, const ParallelConfig& config,
                                     LayerKind kind);

}  // namespace ptdp
