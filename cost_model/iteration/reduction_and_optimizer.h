// The parts of a step besides compute, which its lower bounds and its simulation share.
#pragma once

#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns the time in which neighboring pipeline ranks exchange `messages` activations or
/// gradients of a microbatch in each direction. It is exchange_latency(), and for each message the
/// link's time. Where messages are scattered over the tensor-parallel group, the gathering there is
/// added. Source: SC21 (arXiv:2104.04473) section 4.1.
[[nodiscard]] Seconds exchange_time(const PlannedJob& job, const Placements& groups,
                                    double messages);

/// Returns the part of exchange_time() that does not depend on sizes: the time of the smallest
/// message that was measured, or the stack's pipeline_latency.
[[nodiscard]] Seconds exchange_latency(const Scenario& scenario, const Placements& groups);

/// Returns the number of buckets of the gradients of `parameters` parameters. It is 1 where the
/// reduction hides behind nothing.
[[nodiscard]] double num_gradient_buckets(const StackSpec& stack, int pp, double parameters);

/// Whether replicas all-reduce gradients. Else ZeRO's reduce-scatter them.
[[nodiscard]] bool all_reduces(const StackSpec& stack, const ParallelConfig& config);
/// Returns the time of one of `pieces` equal pieces of the reduction of a GPU's gradients over the
/// GPUs that hold the same parameters. First come all but the experts', then these. Where shards
/// have replicas it is a reduce-scatter, and then an all-reduce of the shard.
[[nodiscard]] Seconds reduction_time(const PlannedJob& job, const RankParameters& parameters,
                                     double pieces);
/// Returns the time of one of `pieces` equal pieces of gathering a GPU's parameters from the shards
/// of ZeRO's optimizer; 0 without shards. First come all but the experts', then these.
///
/// A stack that broadcasts_weights waits longer where shards lie on several nodes. Whole matrices
/// belong to a shard, so that b = min(n, matrices) shards of n have some, and each is one
/// broadcast: t = b·n·hop. A broadcast passes all n ranks, and each passes a chunk on once it has
/// it. NCCL's model gives each of these steps the network's latency of a chunk, 14 us, which is the
/// usual latency of a NIC's hop. Source: broadcast_params() and ParamBcastSyncHandler of InternLM
/// 870dd7d; ncclTopoTuneModel in NCCL 2.30.7 (src/graph/tuning.cc), its case of ncclFuncBroadcast.
[[nodiscard]] Seconds gathering_time(const PlannedJob& job, const RankParameters& parameters,
                                     double pieces);
/// Whether a GPU with `parameters` holds some that others hold too, so that there is something to
/// reduce.
[[nodiscard]] bool has_replicas(const Placements& groups, const RankParameters& parameters);

/// Returns the time of the all-reduce of the tied embedding's gradient between the first pipeline
/// rank and the last. It is 0 where the embedding is not tied or both ends are on one GPU.
[[nodiscard]] Seconds tied_reduction_time(const PlannedJob& job);

/// Time of the optimizer's step on a GPU's shard of its parameters, or of a host's step
/// (offload.h).
struct OptimizerTime {
  /// Time until all GPUs of a replica know the norm, or whether gradients overflowed.
  Seconds norm;
  Seconds step;  ///< Time of the update itself.
};
/// Computes the time of the optimizer's step on a GPU that holds `parameters`.
///
/// With fp16 it first looks for overflows, of which all GPUs of a replica must know before any may
/// go on. Where this project's operations are measured (element_wise.h), it is the norm of the
/// gradients and AdamW. One number of that norm goes to all GPUs of a replica, and the loss to all
/// replicas. The step includes casting weights to 8 bits where that is done once in an iteration
/// (fp8_casts.h).
[[nodiscard]] OptimizerTime optimizer_time(const PlannedJob& job, const RankParameters& parameters);

}  // namespace ptdp
