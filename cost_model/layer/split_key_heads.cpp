// Counts what is gathered of split key heads, and the passes over it.
#include "cost_model/layer/split_key_heads.h"

#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {

double gathered_head_width(const TransformerConfig& model, int tp, SplitKeyHeads how) {
  if (!splits_key_heads(model, tp)) {
    return 0.0;
  }
  const auto keys_and_values = 2.0 * static_cast<double>(key_width(model));
  switch (how) {
    case SplitKeyHeads::kNever:
      return 0.0;
    case SplitKeyHeads::kGatherKeysAndValues:
      return keys_and_values;
    case SplitKeyHeads::kGatherQkv:
      return keys_and_values + static_cast<double>(query_width(model));
  }
  return 0.0;
}

SplitHeadTraffic split_head_traffic(const TransformerConfig& model, const ParallelConfig& config,
                                    const StackSpec& stack) {
  constexpr double forward_passes = 2.0;   // read, written
  constexpr double backward_passes = 4.0;  // set to 0, written, and put in order as forward
  const Bytes gathered(element_bytes(stack.precision) *
                       static_cast<double>(tokens_of_rank(model, config)) *
                       gathered_head_width(model, config.tp, stack.can_run.split_key_heads));
  return {.forward = forward_passes * gathered, .backward = backward_passes * gathered};
}

}  // namespace ptdp
