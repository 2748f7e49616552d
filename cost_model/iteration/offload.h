// What lies in the memory of the host, and what moving it costs: optimizer states, activations.
#pragma once

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/rank_parameters.h"
#include "cost_model/stage/stage.h"
#include "cost_model/units.h"

namespace ptdp {

/// Time of the optimizer's step on a host: of each parameter in a rank's shard the gradient comes
/// and the updated copy goes over the link, 4 bytes each (fp32 on both sides), while the host's
/// memory moves the stack's host_optimizer_traffic; whichever takes longer. The cluster must have a
/// host. Source: Megatron-Core HybridDeviceOptimizer with --overlap-cpu-optimizer-d2h-h2d; which of
/// the two bounds a step Megatron-Bridge measured to be the host (docs/training/cpu-offloading.md).
[[nodiscard]] Seconds host_optimizer_time(const PlannedJob& job, const RankParameters& parameters);

/// What a microbatch waits for activations on their way to the host and back.
struct OffloadTime {
  Seconds forward;
  Seconds backward;
};
/// Of a configuration that offloads activations: those of the first layers, offload_num_layers or
/// all but the last, leave one layer's after the other behind the forward passes of the layers that
/// follow, so that the GPU never has more layers' than stay, and come back behind their backward
/// passes, in the same way from the end; what that does not hide is exposed. Behind n of L layers
/// are L-n-1 passes: of all but the last nothing is hidden. Source: TransformerEngine since 2.10,
/// pytorch/cpu_offload.py (DefaultOffloadSynchronizer); Megatron-Core --cpu-offloading-num-layers,
/// at most all layers but one.
[[nodiscard]] OffloadTime activation_offload_time(const PlannedJob& job);

/// Activations that stay on the GPU of `kept`, those of all layers: where they are offloaded those
/// of so many layers as are not, each no more than `largest_layer`. Source: the same.
[[nodiscard]] Bytes activations_on_gpu(const TransformerConfig& model, const ParallelConfig& config,
                                       Bytes kept, Bytes largest_layer);

/// Bytes of optimizer states per parameter that stay on the GPU.
[[nodiscard]] double optimizer_bytes_on_gpu(const StackSpec& stack, const ParallelConfig& config);

/// What a GPU puts into its host's memory: optimizer states with copies of gradients and parameters
/// to work on (4 bytes each), and activations.
[[nodiscard]] Bytes host_memory(const PlannedJob& job);

}  // namespace ptdp
