// What of optimizer states, gradients and weights a configuration shards, and when.
#pragma once

#include <cstdint>

#include "cost_model/inputs/parallel_config.h"

namespace ptdp {

/// Returns whether each replica holds and updates a shard of the optimizer states: ZeRO-1 and
/// above.
[[nodiscard]] constexpr bool shards_optimizer(const ParallelConfig& config) {
  return config.zero_stage >= 1;
}

/// Returns whether gradients are reduced to shards after every microbatch: ZeRO-2 and -3 without a
/// pipeline. With one, a microbatch's pass through a stage is too short for that. Gradients then
/// stay whole until the last microbatch, which sends what ZeRO-1 sends (torchtitan's
/// fsdp_reshard_after_forward "default"; DeepSpeed and Megatron-LM refuse it).
[[nodiscard]] constexpr bool shards_gradients(const ParallelConfig& config) {
  return config.zero_stage >= 2 && config.pp == 1;
}
/// Returns whether weights are gathered from shards for the passes of every microbatch: ZeRO-3
/// without a pipeline. With one, a microbatch's pass through a stage is too short for that. Weights
/// then stay once they are gathered (torchtitan's fsdp_reshard_after_forward "default"; DeepSpeed
/// and Megatron-LM refuse it).
[[nodiscard]] constexpr bool shards_weights(const ParallelConfig& config) {
  return config.zero_stage >= 3 && config.pp == 1;
}

/// Returns whether a pipeline rank may hold whole gradients of few of its chunks at once: those of
/// other chunks are shards before. That takes ZeRO-2 or -3, more than two chunks and unsplit
/// backward passes; reduces_by_chunk() looks at microbatches too.
[[nodiscard]] constexpr bool may_reduce_by_chunk(const ParallelConfig& config) {
  return config.zero_stage >= 2 && config.pp > 1 && config.vpp > 2 &&
         traits_of(config.schedule).most_chunks > 2 && !traits_of(config.schedule).splits_backward;
}
/// Returns whether a pipeline rank holds whole gradients of only few of its chunks at once. A
/// chunk's backward passes must be all in a row, its last microbatch before the next chunk's first.
/// Interleaved, that takes a single group of microbatches, at most pp. A gradient exists from its
/// first microbatch until the reduce-scatter after its last (PyTorch,
/// FSDPParamGroup.post_backward).
[[nodiscard]] constexpr bool reduces_by_chunk(const ParallelConfig& config,
                                              std::int64_t num_microbatches) {
  return may_reduce_by_chunk(config) &&
         (!traits_of(config.schedule).has_groups || num_microbatches <= config.pp);
}

/// Returns whether ZeRO-3's weights are gathered a second time, for the backward pass.
[[nodiscard]] constexpr bool gathers_again(const ParallelConfig& config) {
  return shards_weights(config) && config.reshard_after_forward;
}

/// Returns the share of a rank's gradients that it adds to those of earlier microbatches: 1, or
/// only its shard if gradients are reduced after every microbatch.
[[nodiscard]] constexpr double share_accumulated(const ParallelConfig& config) {
  return shards_gradients(config) ? 1.0 * config.dp_replicate / config.dp / config.cp : 1.0;
}

}  // namespace ptdp
