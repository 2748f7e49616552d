// The linear layers of a transformer layer.
#pragma once

#include <cstdint>

#include "cost_model/analytic/linear_layer.h"
#include "cost_model/spec/layer_kinds.h"
#include "cost_model/spec/parallel_config.h"
#include "cost_model/spec/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// The two linear layers whose outputs are split over tp, the two whose inputs are, and those that
/// are not split; without experts.
struct LinearLayers {
  LinearTime qkv;  ///< Of latent attention what decompresses.
  LinearTime up;   ///< h→4h; of the shared experts, where there are some.
  LinearTime projection;
  LinearTime down;   ///< 4h→h; of the shared experts likewise.
  LinearTime whole;  ///< Compressions of latent attention.

  [[nodiscard]] LinearTime column() const { return qkv + up; }
  [[nodiscard]] LinearTime total() const { return column() + projection + down + whole; }
};

/// Their times on a rank, as many times as long as compute_factors() says; each product in so many
/// `chunks` of the tokens, side by side.
[[nodiscard]] LinearLayers linear_layers(const Scenario& scenario, const ParallelConfig& config,
                                         LayerKind kind, std::int64_t chunks = 1);

/// What tensor parallelism exposes of a forward pass: of what enters column-parallel layers, and of
/// what row-parallel ones put out.
struct ForwardCollectives {
  Seconds into_attention;
  Seconds out_of_attention;
  Seconds into_mlp;
  Seconds out_of_mlp;

  [[nodiscard]] Seconds total() const {
    return (into_attention + out_of_attention) + (into_mlp + out_of_mlp);
  }
};

/// Width of the dense MLP of a layer: of the shared experts where it has experts; 0: it has none.
[[nodiscard]] int dense_mlp_width(const TransformerConfig& model, LayerKind kind);

/// Features that enter the column-parallel layers of attention: hidden states, or of latent
/// attention what is compressed, and the queries' hidden states where they are not.
[[nodiscard]] double attention_input_width(const TransformerConfig& model);

}  // namespace ptdp
