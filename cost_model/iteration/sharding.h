// Full sharding, ZeRO stages 2 and 3 and FSDP: what it makes each microbatch send.
#pragma once

#include "cost_model/inputs/zero_sharding.h"
#include "cost_model/iteration/step_terms.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// Exposed time of one microbatch's gathers and reduce-scatters.
struct ShardingTime {
  Seconds forward;
  Seconds backward;
};

/// Of a configuration that shards_gradients(); layers are the units. With G and R the time to
/// gather a layer's weights and to reduce-scatter its gradients over the GPUs that hold the same
/// (experts over theirs), C and C' the time of a layer's forward pass, and of its backward one with
/// what it recomputes:
///
///   stage 3  forward   G of the ends (embedding, logits) and of the first layer, then each layer
///                      G behind the C of the one before
///            backward  each layer G + R behind the C' of a neighbour, and R of the ends
///            without reshard_after_forward each layer R behind C' only
///   stage 2  backward  each layer R behind C', and R of the ends
///
/// Where shards have replicas G spans one of these and R ends with an all-reduce of the shard
/// between them, in every microbatch (PyTorch FSDP2 without set_requires_all_reduce(False)).
///
/// "behind" leaves what is longer than the compute, and the stack's overlap_slowdown of the rest; a
/// stack without overlap leaves all. The backward pass moves the stack's gradient_staging_traffic
/// too: gradients are put together before they are reduced. A stack that shards_matrices_apart has
/// four gathers and reduce-scatters in place of one, and to launch a kernel for each rank's piece
/// of each, which nothing hides; with a max_reuse_distance it gathers matrices for recomputation
/// and once more for the backward pass where their next use is farther (arXiv:2104.07857
/// section 4.1). One that all_reduces_shards has all-reduces in place of reduce-scatters, without
/// pieces, which nothing hides either. Source: PyTorch FSDP (arXiv:2304.11277) section 3.3,
/// backward and forward prefetching; ZeRO (arXiv:1910.02054) section 7: 3 times the parameters in
/// each microbatch.
[[nodiscard]] ShardingTime sharding_time(const PlannedJob& job);

/// Bytes that a GPU sends for it in an iteration, gathering after the optimizer's step included.
[[nodiscard]] Bytes sharding_volume(const PlannedJob& job);

/// Memory beside the shards: of stage 3 the gathered weights of two layers, or of their
/// largest matrices where these are apart (one computes, one is on its way), and of the ends, or of
/// the whole stage without reshard_after_forward; of both as many gradients, whole until they are
/// reduced.
[[nodiscard]] Bytes sharding_buffers(const PlannedJob& job);

}  // namespace ptdp
