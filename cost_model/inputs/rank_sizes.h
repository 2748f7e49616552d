// How much of a microbatch and of the vocabulary falls to one rank.
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

/// Returns the vocabulary V rounded up to a multiple of 128·t, as Megatron-LM pads it.
[[nodiscard]] std::int64_t padded_vocab_size(const TransformerConfig& model, int tp);

}  // namespace ptdp
