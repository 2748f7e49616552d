// What casting the factors of products to 8 bits moves, and what is kept of it.
#pragma once

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/layer_parameters.h"
#include "cost_model/units.h"

namespace ptdp {

/// Copies of a factor that the three products of a linear layer need: one, or two of which one is
/// transposed. A product adds over the inner dimension, which differs between the two that share a
/// factor: scales of blocks are along it, and Hopper's tensor cores read 8-bit factors along it
/// only (GpuSpec::fp8_any_layout).
[[nodiscard]] int fp8_copies(Fp8Scaling scaling, const GpuSpec& gpu);

/// Casts of a layer, per microbatch.
struct LayerCasts {
  Bytes forward;   ///< HBM traffic.
  Bytes backward;  ///< That of a norm that writes 8 bits in place of 16 is less, not more.
  /// Of each expert its own, unless the stack fuses their products or scales are delayed.
  double forward_kernels = 0.0;
  double backward_kernels = 0.0;
};

/// With elements of e bytes (two), the passes over a factor are
///
///   a read of e, and one more where scaling is current (not behind a norm that casts)
///   a write of each copy, fp8_bytes()
///
/// in one kernel, and one for the second read. Copies of a tensor that sequence parallelism
/// gathers in 8 bits are cast on a rank's part of it, and transposed, read and written, once they
/// are gathered; scales of blocks allow no transposing, so both copies are of the part. A norm that
/// casts for delayed scaling writes 1 byte in place of e and leaves only transposing. Where inputs
/// are not kept in 8 bits, the copy for the weight gradient is cast in the backward pass.
///
/// Factors are the inputs of each linear layer forward (of layers side by side with one input, one:
/// QKV, gate and up; of latent attention's compressions, two), the gradients of their outputs
/// backward, and where they are cast in every pass the weights, forward. Weights that are gathered
/// for each pass in 8 bits are only transposed there. Nothing without 8 bits.
/// Source: TransformerEngine transformer_engine/pytorch/module/{linear,layernorm_linear}.py at
/// d0067d0da6, common/cast; torchao float8/float8_linear.py.
[[nodiscard]] LayerCasts layer_casts(const Scenario& scenario, const ParallelConfig& config,
                                     LayerKind kind);

/// Of a layer's forward casts, those of the config's recompute_modules, weights apart: what
/// selective recomputation casts again. Nothing backward; "op" leaves out none and is not covered.
[[nodiscard]] LayerCasts repeated_casts(const Scenario& scenario, const ParallelConfig& config,
                                        LayerKind kind);

/// Whether layer_casts() has weights because they are gathered for each pass: what it says then
/// depends on the ZeRO stage.
[[nodiscard]] bool casts_shards(const StackSpec& stack, const ParallelConfig& config);

/// HBM traffic of casting the weights of `held` once in an iteration: none where they are cast or
/// gathered for each pass. Of those that are gathered in 8 bits from shards, transposing; the cast
/// of a rank's own shard is part of the optimizer's traffic.
[[nodiscard]] Bytes weight_cast_traffic(const Scenario& scenario, const ParallelConfig& config,
                                        const RankParameters& held);

/// Bytes of the weights of `held` parameters on a rank that has them whole, copies in 8 bits
/// included; `weight_bytes` each without 8 bits.
[[nodiscard]] RankParameters stored_weights(const StackSpec& stack, const GpuSpec& gpu,
                                            const RankParameters& held);
/// The same of weights that full sharding keeps in shards, each once: in 8 bits where these are all
/// that there is of them.
[[nodiscard]] RankParameters weights_in_shards(const StackSpec& stack, const RankParameters& held);

/// Bytes of `parameters` as they are gathered from shards.
[[nodiscard]] RankParameters gathered_weights(const StackSpec& stack,
                                              const RankParameters& parameters);

}  // namespace ptdp
