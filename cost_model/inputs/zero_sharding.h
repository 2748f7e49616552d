// What of optimizer states, gradients and weights a configuration shards, and when.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"

namespace ptdp {

/// Whether each replica holds and updates a shard of the optimizer states: ZeRO-1 and above.
[[nodiscard]] constexpr bool shards_optimizer(const ParallelConfig& config) {
  return config.zero_stage >= 1;
}

/// Whether gradients are reduced to shards after every microbatch, and whether weights are gathered
/// from shards for every pass. With a pipeline neither is: a microbatch's pass through a stage is
/// too short for it, so weights stay once they are gathered and gradients until the last
/// microbatch, which sends what ZeRO-1 sends, whatever its name (torchtitan's
/// fsdp_reshard_after_forward "default"; DeepSpeed and Megatron-LM refuse it).
[[nodiscard]] constexpr bool shards_gradients(const ParallelConfig& config) {
  return config.zero_stage >= 2 && config.pp == 1;
}
[[nodiscard]] constexpr bool shards_weights(const ParallelConfig& config) {
  return config.zero_stage >= 3 && config.pp == 1;
}

/// Whether a stage may have whole gradients of few of its chunks at once, for the others' are
/// shards before these begin: ZeRO-2 and -3 of more than two chunks, see reduces_by_chunk().
[[nodiscard]] constexpr bool may_reduce_by_chunk(const ParallelConfig& config) {
  return config.zero_stage >= 2 && config.pp > 1 && config.vpp > 2 &&
         traits_of(config.schedule).most_chunks > 2 && !traits_of(config.schedule).splits_backward;
}
/// Whether it has: where a chunk's backward passes are all in a row, its last microbatch comes
/// before the next chunk's first. Interleaved, that is one group of microbatches, at most pp. A
/// gradient exists from its first microbatch until the reduce-scatter after its last (PyTorch,
/// FSDPParamGroup.post_backward).
[[nodiscard]] constexpr bool reduces_by_chunk(const ParallelConfig& config,
                                              std::int64_t num_microbatches) {
  return may_reduce_by_chunk(config) &&
         (!traits_of(config.schedule).has_groups || num_microbatches <= config.pp);
}

/// Whether weights are gathered a second time, for the backward pass.
[[nodiscard]] constexpr bool gathers_again(const ParallelConfig& config) {
  return shards_weights(config) && config.reshard_after_forward;
}

/// The part of a rank's gradients that it adds to those of earlier microbatches.
[[nodiscard]] constexpr double share_accumulated(const ParallelConfig& config) {
  return shards_gradients(config) ? 1.0 * config.dp_replicate / config.dp / config.cp : 1.0;
}

}  // namespace ptdp
