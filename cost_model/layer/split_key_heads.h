// What a layer moves where a tensor-parallel group has more ranks than the model has key heads.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns the elements of each token that a tensor-parallel group of `tp` gathers in a forward
/// pass and reduces in a backward one, per layer. These are keys and values of all heads, or
/// queries too; 0 where tp does not exceed the key heads. Source: Megatron-Core 0.16, attention.py.
[[nodiscard]] double gathered_head_width(const TransformerConfig& model, int tp, SplitKeyHeads how);

/// Traffic of a layer's memory to bring gathered heads in order, per microbatch.
struct SplitHeadTraffic {
  Bytes forward;
  Bytes backward;
};
/// Computes the traffic of gathered heads. Forward, what is gathered is read and written once more.
/// Backward, gradients of what a rank does not use are set to 0, and all are put in order.
[[nodiscard]] SplitHeadTraffic split_head_traffic(const TransformerConfig& model,
                                                  const ParallelConfig& config,
                                                  const StackSpec& stack);

}  // namespace ptdp
