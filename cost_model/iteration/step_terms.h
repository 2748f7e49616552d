// The parts of a step besides compute, that its bounds and its simulation share.
#pragma once

#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/rank_parameters.h"
#include "cost_model/units.h"

namespace ptdp {

/// Time in which neighbouring stages exchange `messages` activations or gradients of a microbatch
/// in each direction: exchange_latency(), and for each the link and, where messages are scattered
/// over the tensor-parallel group, the gathering there. Source: SC21 (arXiv:2104.04473)
/// section 4.1.
[[nodiscard]] Seconds exchange_time(const PlannedJob& job, const Placements& groups,
                                    double messages);

/// The part of it that does not depend on sizes: that of the smallest message that was measured, or
/// the stack's.
[[nodiscard]] Seconds exchange_latency(const Scenario& scenario, const Placements& groups);

/// Buckets of the gradients of `parameters` parameters: one where their reduction hides behind
/// nothing.
[[nodiscard]] double num_gradient_buckets(const StackSpec& stack, int pp, double parameters);
/// One of `pieces` equal pieces of the reduction of a GPU's gradients over those that hold the
/// same (where shards have replicas a reduce-scatter, then an all-reduce of the shard), and of
/// gathering the parameters from the shards of ZeRO's optimizer (nothing without);
/// first all but the experts', then these.
[[nodiscard]] Seconds reduction_time(const PlannedJob& job, const RankParameters& parameters,
                                     double pieces);
[[nodiscard]] Seconds gathering_time(const PlannedJob& job, const RankParameters& parameters,
                                     double pieces);
/// Whether a GPU holds parameters that others hold too, so that there is something to reduce.
[[nodiscard]] bool has_replicas(const Placements& groups, const RankParameters& parameters);

/// All-reduce of the tied embedding's gradient between the first stage and the last; nothing where
/// it is not tied or they are on one GPU.
[[nodiscard]] Seconds tied_reduction_time(const PlannedJob& job);

/// The optimizer's step on its shard of `parameters`, or a host's (offload.h). With fp16 it first
/// looks for overflows, of which all GPUs of a replica have to know before any may go on. Where
/// this project's operations are measured (element_wise.h) it is the norm of the gradients, with
/// one number to all GPUs of a replica and the loss to all replicas, and AdamW. The step includes
/// casting weights to 8 bits where that is done once (fp8_casts.h).
struct OptimizerTime {
  Seconds norm;  ///< Until all know.
  Seconds step;
};
[[nodiscard]] OptimizerTime optimizer_time(const PlannedJob& job, const RankParameters& parameters);

}  // namespace ptdp
