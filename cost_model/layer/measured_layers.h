// Whole layers that were measured, and what they say of the model of any layer on that GPU.
#pragma once

#include "cost_model/inputs/gpu_spec.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/units.h"

namespace ptdp {

/// One transformer layer on one GPU, without collectives, as it was measured.
struct MeasuredLayer {
  TransformerConfig model;   ///< Shape of the whole layer, resolved; a single dense layer.
  int tp = 1;                ///< Tensor-parallel ranks that share it; the GPU ran the part of one.
  int micro_batch_size = 1;  ///< Sequences.
  Seconds forward;           ///< Time of a forward pass.
  Seconds backward;          ///< Time of a backward pass that adds to gradients.
};

/// Returns what the layer took over what the model says of it, for a GPU and the software that ran
/// it. The GPU's own layer factors do not count.
[[nodiscard]] LayerFactor factor_of(const MeasuredLayer& layer, const ClusterSpec& cluster,
                                    const StackSpec& stack);

/// Returns the largest `launch_slowdown` up to the cluster's own with which the host launches each
/// pass of the layer in no more time than the pass was measured to take.
[[nodiscard]] double largest_launch_slowdown(const MeasuredLayer& layer, const ClusterSpec& cluster,
                                             const StackSpec& stack);

/// Returns the factor on the compute of a dense layer of `tokens` on each of `tp` ranks, and on
/// what it takes to start its kernels:
///
///   ln f = Σ w_i·ln f_i / Σ w_i,   w_i = 1/d_i⁴
///
/// with d_i the distance to a measured layer in log₂ of tokens and ranks (Shepard, ACM 1968). It is
/// exact where a layer was measured, and 1 without any.
[[nodiscard]] LayerFactor layer_factor(const GpuSpec& gpu, double tokens, int tp);

}  // namespace ptdp
