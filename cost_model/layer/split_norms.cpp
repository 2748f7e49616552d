// Counts what is summed of split norms, and the passes for it.
#include "cost_model/layer/split_norms.h"

#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {

int norm_sums_of_token(const TransformerConfig& model, int tp, const StackSpec& stack) {
  constexpr int queries_and_keys = 2;
  return stack.memory_model == MemoryModel::kPtdp && splits_norms(model, tp) ? queries_and_keys : 0;
}

Bytes norm_sums(const TransformerConfig& model, const ParallelConfig& config,
                const StackSpec& stack) {
  return Bytes(1.0 * norm_sums_of_token(model, config.tp, stack) *
               accumulator_bytes(stack.precision) *
               static_cast<double>(tokens_of_rank(model, config)));
}

SplitNormTraffic split_norm_traffic(const TransformerConfig& model, const ParallelConfig& config,
                                    const StackSpec& stack) {
  if (norm_sums_of_token(model, config.tp, stack) == 0) {
    return {};
  }
  const Bytes heads(1.0 * element_bytes(stack.precision) *
                    static_cast<double>(tokens_of_rank(model, config)) *
                    static_cast<double>(query_width(model) + key_width(model)) / config.tp);
  return {.forward = heads, .backward = 2.0 * heads};
}

}  // namespace ptdp
