// A plan of any size as something that runs on one host: the same orders and messages, tiny layers.
#pragma once

#include "cost_model/spec/parallel_config.h"
#include "cost_model/spec/transformer_config.h"

namespace ptdp {

/// The model as narrow as can be: per tensor-parallel rank one head of two channels and one token
/// of a sequence, a vocabulary of 64. Layers, what ties the embeddings and what else changes which
/// messages are sent stay.
[[nodiscard]] TransformerConfig shrunk(const TransformerConfig& model,
                                       const ParallelConfig& config);

/// The configuration with one replica and one sequence per microbatch; the rest stays.
[[nodiscard]] ParallelConfig shrunk(ParallelConfig config);

}  // namespace ptdp
