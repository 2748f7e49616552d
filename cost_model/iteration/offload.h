// What lies in the memory of the host, and what moving it costs: optimizer states and activations.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/pipeline_rank/rank_parameters.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns the time of the optimizer's step on a host. Of each parameter in a rank's shard the
/// gradient comes and the updated copy goes over the link, 4 bytes each (fp32 on both sides).
/// Meanwhile the host's memory moves the stack's host_optimizer_traffic; the longer of the two
/// counts. The cluster must have a host. Source: Megatron-Core HybridDeviceOptimizer with
/// --overlap-cpu-optimizer-d2h-h2d. Of the two, Megatron-Bridge measured the host to bound a step
/// (docs/training/cpu-offloading.md).
[[nodiscard]] Seconds host_optimizer_time(const PlannedJob& job, const RankParameters& parameters);

/// Time that a microbatch waits for activations on their way to the host and back.
struct OffloadTime {
  Seconds forward;   ///< Wait of the forward pass for activations to leave.
  Seconds backward;  ///< Wait of the backward pass for activations to return.
};
/// Computes what a microbatch waits for in a configuration that offloads activations. The cluster
/// must have a host. The activations of the first layers are offloaded: offload_num_layers of them,
/// or all but the last.
///
/// They leave one layer's after the other, behind the forward passes of the layers that follow. The
/// GPU thus never has more layers' than stay. They come back behind the backward passes, in the
/// same way from the end. What these passes do not hide is exposed. Behind n of L layers are L-n-1
/// passes: with all but the last offloaded nothing is hidden. Source: TransformerEngine since 2.10,
/// pytorch/cpu_offload.py (DefaultOffloadSynchronizer); Megatron-Core --cpu-offloading-num-layers,
/// at most all layers but one.
[[nodiscard]] OffloadTime activation_offload_time(const PlannedJob& job);

/// Returns how much of `kept`, the activations of all layers, stays on the GPU. With offloading
/// these are the activations of as many layers as are not offloaded, each no more than
/// `largest_layer`. Source: TransformerEngine, pytorch/cpu_offload.py, as for
/// activation_offload_time().
[[nodiscard]] Bytes activations_on_gpu(const TransformerConfig& model, const ParallelConfig& config,
                                       Bytes kept, Bytes largest_layer);

/// Returns the bytes of optimizer states per parameter that stay on the GPU.
[[nodiscard]] double optimizer_bytes_on_gpu(const StackSpec& stack, const ParallelConfig& config);

/// Returns what one GPU puts into its host's memory: offloaded activations and optimizer states.
/// The states come with copies of gradients and parameters to work on (4 bytes each).
[[nodiscard]] Bytes host_memory(const PlannedJob& job);

}  // namespace ptdp
