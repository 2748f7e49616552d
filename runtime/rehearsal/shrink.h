// A plan of any size as something that runs on one host: the same orders and messages, tiny layers.
#pragma once

#include <string>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// The model as a GPT as narrow as can be: per tensor-parallel rank one head of two channels and
/// one token of a sequence, a vocabulary of 64. Layers and what ties the embeddings stay.
[[nodiscard]] TransformerConfig shrunk(const TransformerConfig& model,
                                       const ParallelConfig& config);

/// The configuration with one replica, whole sequences, one to a microbatch, no experts to spread,
/// nothing offloaded, recomputation of the attention core or of all layers, and ranks in the
/// default order; the rest stays.
[[nodiscard]] ParallelConfig shrunk(ParallelConfig config);

/// Names what a shrunk run leaves out, on which orders and messages do not depend: "the model has
/// rotary positions, the plan has offload optimizer"; empty where that is nothing.
[[nodiscard]] std::string left_out(const TransformerConfig& model, const ParallelConfig& config);

}  // namespace ptdp
