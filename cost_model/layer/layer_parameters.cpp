// Counts a rank's part of a layer's parameters.
#include "cost_model/layer/layer_parameters.h"

#include "cost_model/inputs/parameter_counts.h"

namespace ptdp {

RankParameters& RankParameters::operator+=(const RankParameters& other) {
  dense += other.dense;
  experts += other.experts;
  matrices += other.matrices;
  return *this;
}

RankParameters operator*(const RankParameters& parameters, double factor) {
  return {.dense = parameters.dense * factor,
          .experts = parameters.experts * factor,
          .matrices = parameters.matrices * factor};
}

RankParameters layer_parameters_of_rank(const TransformerConfig& model,
                                        const ParallelConfig& config, LayerKind kind) {
  const LayerParameters layer = layer_parameters(model, kind.has_experts);
  const LayerWeights weights = layer_matrices(model, kind.has_experts);
  const double compressions = layer_matrices(model, /*has_experts=*/false).replicated;
  return {
      .dense = static_cast<double>(layer.split) / config.tp + static_cast<double>(layer.replicated),
      .experts = static_cast<double>(layer.experts) / config.ep / config.etp,
      .matrices = weights.split / config.tp + compressions};
}

double weights_of_rank(const TransformerConfig& model, const ParallelConfig& config,
                       LayerKind kind) {
  const LayerWeights weights = layer_matrices(model, kind.has_experts);
  return weights.split / config.tp + weights.replicated + weights.experts / config.ep / config.etp;
}

}  // namespace ptdp
