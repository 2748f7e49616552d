// Shrinks a plan of any size to one that runs on one host: the same orders and messages, tiny
// layers.
#pragma once

#include <string>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Returns a model of the same kind as narrow as it can be. Per tensor-parallel rank it has a key
/// head of two channels, one or two query heads and one token of a sequence; its vocabulary is 64.
/// The number of layers stays. Experts, latent attention and scalings of angles go.
[[nodiscard]] TransformerConfig shrunk(const TransformerConfig& model,
                                       const ParallelConfig& config);

/// Returns the configuration with one replica, one whole sequence per microbatch, no experts to
/// spread, nothing offloaded, and ranks in the default order. Recomputation covers the attention
/// core or all layers. All other fields stay.
[[nodiscard]] ParallelConfig shrunk(ParallelConfig config);

/// Returns what a shrunk run leaves out, such as "the model has rotary positions, the plan has
/// offload optimizer". Orders and messages do not depend on it. Returns "" when nothing is left
/// out.
[[nodiscard]] std::string left_out(const TransformerConfig& model, const ParallelConfig& config);

}  // namespace ptdp
