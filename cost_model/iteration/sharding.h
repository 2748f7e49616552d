// What full sharding (ZeRO stages 2 and 3, FSDP) makes each microbatch send.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/iteration/reduction_and_optimizer.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"

namespace ptdp {

/// Time of one microbatch's gathers and reduce-scatters that no compute hides.
struct ShardingTime {
  Seconds forward;   ///< Exposed time in the forward pass.
  Seconds backward;  ///< Exposed time in the backward pass.
};

/// Computes the exposed time of a configuration for which shards_gradients() holds; layers are the
/// units. G and R are the times to gather a layer's weights and to reduce-scatter its gradients.
/// Both are over the GPUs that hold the same (experts over theirs). C is the time of a layer's
/// forward pass, and C' that of its backward pass with what it recomputes:
///
///   stage 3  forward   G of the ends (embedding, logits) and of the first layer, then each layer
///                      G behind the C of the one before
///            backward  each layer G + R behind the C' of a neighbor, and R of the ends
///            without reshard_after_forward each layer R behind C' only
///   stage 2  backward  each layer R behind C', and R of the ends
///
/// Where shards have replicas, G spans one of these and R ends with an all-reduce of the shard
/// between them, in every microbatch (PyTorch FSDP2 without set_requires_all_reduce(False)).
///
/// "behind" leaves what is longer than the compute, and the stack's overlap_slowdown of the rest; a
/// stack without overlap leaves all. The backward pass moves the stack's gradient_staging_traffic
/// too: gradients are put together before they are reduced.
///
/// A stack that copies_gathered_weights reads and writes each gather's weights once more, which
/// nothing hides.
///
/// A stack that shards_matrices_apart has four gathers and reduce-scatters in place of one. It also
/// launches a kernel for each rank's piece of each of them, which nothing hides. With a
/// max_reuse_distance it gathers matrices for recomputation, and once more for the backward pass
/// where their next use is farther (arXiv:2104.07857 section 4.1). A stack that all_reduces_shards
/// has all-reduces in place of reduce-scatters, without pieces, which nothing hides either.
///
/// Source: PyTorch FSDP (arXiv:2304.11277) section 3.3, backward and forward prefetching; ZeRO
/// (arXiv:1910.02054) section 7: 3 times the parameters in each microbatch.
[[nodiscard]] ShardingTime sharding_time(const PlannedJob& job);

/// Returns the bytes that a GPU sends for full sharding in an iteration. With weights whole between
/// passes, they include gathering after the optimizer's step.
[[nodiscard]] Bytes sharding_volume(const PlannedJob& job);

/// Returns the memory that full sharding takes beside the shards. Stage 3 holds the gathered
/// weights of two layers (one computes, one is on its way) and of the ends. Where matrices are
/// apart, the largest matrices of two layers take the layers' place. Without reshard_after_forward
/// stage 3 holds the gathered weights of all that the rank holds. Stages 2 and 3 hold as many
/// gradients as two layers and the ends have, whole until they are reduced.
[[nodiscard]] Bytes sharding_buffers(const PlannedJob& job);

}  // namespace ptdp
