// How much of a microbatch, of experts and of the vocabulary falls to one rank.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// Returns the tokens of a microbatch that a rank has, b·s/cp.
[[nodiscard]] constexpr std::int64_t tokens_of_rank(const TransformerConfig& model,
                                                    const ParallelConfig& config) {
  return std::int64_t{1} * config.micro_batch_size * model.seq_length / config.cp;
}

/// Returns how many of a layer's E experts a rank has, E/ep; `config.ep` divides E.
[[nodiscard]] constexpr int experts_of_rank(const TransformerConfig& model,
                                            const ParallelConfig& config) {
  return model.num_experts / config.ep;
}

/// Returns the key heads that attention on a rank works with: those of the model divided by t, or 1
/// where ranks share a head.
[[nodiscard]] constexpr int key_heads_of_rank(const TransformerConfig& model, int tp) {
  return model.num_query_groups > tp ? model.num_query_groups / tp : 1;
}
/// Returns the width of the keys, and of the values, that attention on a rank works with.
[[nodiscard]] constexpr std::int64_t key_width_of_rank(const TransformerConfig& model, int tp) {
  return std::int64_t{1} * key_heads_of_rank(model, tp) * model.kv_channels;
}
/// Returns whether a tensor-parallel group has more ranks than the model has key heads, so that
/// each rank projects a part of a key head.
[[nodiscard]] constexpr bool splits_key_heads(const TransformerConfig& model, int tp) {
  return !has_latent_attention(model) && model.num_query_groups < tp;
}

/// Returns whether norms of queries and keys reach over the heads of several tensor-parallel ranks.
[[nodiscard]] constexpr bool splits_norms(const TransformerConfig& model, int tp) {
  return tp > 1 && model.qk_layernorm && model.qk_layernorm_width == QkNormWidth::kAllHeads &&
         !has_latent_attention(model);
}

/// Returns the vocabulary V rounded up to a multiple of 128·t, as Megatron-LM pads it.
[[nodiscard]] std::int64_t padded_vocab_size(const TransformerConfig& model, int tp);

}  // namespace ptdp
