// What a layer of this project's runtime moves for norms of queries and keys that reach over the
// heads of several tensor-parallel ranks.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns the accumulators of each token that a tensor-parallel group of `tp` sums in each pass of
/// a layer. There is one of queries and one of keys. Returns 0 where no norm reaches over ranks,
/// and for other stacks. Megatron-Core has no such norms. Hugging Face transformers gathers the
/// heads (base_model_tp_plan of olmo2), which is not modeled.
[[nodiscard]] int norm_sums_of_token(const TransformerConfig& model, int tp,
                                     const StackSpec& stack);

/// Returns the bytes that the group sums in each pass of a layer, per microbatch.
[[nodiscard]] Bytes norm_sums(const TransformerConfig& model, const ParallelConfig& config,
                              const StackSpec& stack);

/// Traffic of a layer's memory beyond that of norms by one pass, per microbatch.
struct SplitNormTraffic {
  Bytes forward;
  Bytes backward;
};
/// Computes the traffic of the sums over rows. Forward, queries and keys are read once more;
/// backward, their gradients too.
[[nodiscard]] SplitNormTraffic split_norm_traffic(const TransformerConfig& model,
                                                  const ParallelConfig& config,
                                                  const StackSpec& stack);

}  // namespace ptdp
