// What casting the factors of products to 8 or 4 bits moves, and what is kept of it.
#pragma once

#include "cost_model/inputs/layer_kinds.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/layer/layer_parameters.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns how many copies of a factor the three products of a linear layer need: one, or two of
/// which one is transposed. A product adds over the inner dimension, which differs between the two
/// products that share a factor. Scales of blocks are along that dimension, and Hopper's tensor
/// cores read 8-bit factors along it only (GpuSpec::fp8_any_layout).
[[nodiscard]] int fp8_copies(Fp8Scaling scaling, const GpuSpec& gpu);

/// Memory traffic and kernels of the casts of one layer, per microbatch.
struct LayerCasts {
  /// HBM traffic of the forward pass. A norm that writes 8 bits in place of 16 makes it less, not
  /// more.
  Bytes forward;
  Bytes backward;  ///< HBM traffic of the backward pass.
  /// Kernels of the forward pass. Each expert has its own, unless the stack fuses the experts'
  /// products, scales are delayed or elements have 4 bits.
  double forward_kernels = 0.0;
  /// Kernels of the backward pass, counted for experts as in the forward pass.
  double backward_kernels = 0.0;
};

/// Returns the bytes of an element that sequence parallelism gathers for a linear layer.
[[nodiscard]] double gathered_activation_bytes(const StackSpec& stack);

/// Computes what the casts of a layer move and launch per microbatch; nothing without 8 bits.
///
/// With elements of e bytes (two), the passes over a factor are
///
///   a read of e, and one more where a tensor's largest element is found (not behind a norm that
///   casts)
///   a write of each copy, fp8_bytes()
///
/// in one kernel, and one for the second read. Sequence parallelism may gather a tensor in 8 bits.
/// The tensor's copies are then cast on a rank's part, and transposed (read and written) once they
/// are gathered. Scales of blocks allow no transposing, so both copies are of the part. A norm that
/// casts for delayed scaling writes 1 byte in place of e and leaves only transposing. Where inputs
/// are not kept in 8 bits, the copy for the weight gradient is cast in the backward pass.
///
/// With a scale per row the two copies have scales of their own. One is cast as it lies, by a
/// kernel that reads the factor once or by the norm that puts it out. The other is transposed in e
/// bytes and then cast. Weights' transposed copies are cast in the backward pass.
///
/// Factors in the forward pass are the inputs of each linear layer. Layers side by side with one
/// input have one factor (QKV; gate and up); the compressions of latent attention have two. Weights
/// are factors of the forward pass where they are cast in every pass. Weights that are gathered for
/// each pass in 8 bits are only transposed, in the backward pass. Other factors of the backward
/// pass are the gradients of the layers' outputs.
///
/// Source: TransformerEngine transformer_engine/pytorch/module/{linear,layernorm_linear}.py at
/// d0067d0da6, common/cast; for 4 bits NVFP4Quantizer::quantize_impl of csrc/quantizer.cpp, whose
/// kernel casts both copies, one behind a Hadamard transform. torchao float8/float8_linear.py; for
/// rows testing/training/roofline_utils.py at 36027d82d1.
[[nodiscard]] LayerCasts layer_casts(const Scenario& scenario, const ParallelConfig& config,
                                     LayerKind kind);

/// Returns the time of casts to a format that move `traffic` in `kernels` kernels:
///
///   t = traffic / (cast_efficiency · bandwidth) + kernels · cast_start
///
/// The efficiency is the format's, else the GPU's. A GPU without these constants casts as it runs
/// element-wise kernels, without their starts. The pass that finds the largest element takes what a
/// cast takes that moves as much.
[[nodiscard]] Seconds cast_time(Bytes traffic, double kernels, const GpuSpec& gpu,
                                LowBitFormat format);

/// Times of a layer's casts per microbatch.
struct CastTimes {
  Seconds forward;
  Seconds backward;
};
/// Returns the times of casts that layer_casts() or repeated_casts() counted; 0 without 8 bits.
[[nodiscard]] CastTimes cast_times(const LayerCasts& casts, const Scenario& scenario);

/// Returns the part of a layer's forward casts that selective recomputation repeats: those of the
/// config's recompute_modules, weights apart. The backward fields are 0. The module "op" drops no
/// casts and is not covered.
[[nodiscard]] LayerCasts repeated_casts(const Scenario& scenario, const ParallelConfig& config,
                                        LayerKind kind);

/// Whether layer_casts() includes weights because they are gathered for each pass. If so, its
/// result depends on the ZeRO stage.
[[nodiscard]] bool casts_shards(const StackSpec& stack, const ParallelConfig& config);

/// Returns the HBM traffic of casting the weights of `held` once in an iteration. It is 0 where
/// weights are cast or gathered for each pass. Weights that are gathered in 8 bits from shards are
/// only transposed; the cast of a rank's own shard is part of the optimizer's traffic.
[[nodiscard]] Bytes weight_cast_traffic(const Scenario& scenario, const ParallelConfig& config,
                                        const RankParameters& held);

/// Returns the bytes of the weights of `held` parameters on a rank that has them whole, copies in 8
/// bits included. Without 8 bits each takes the stack's weight_bytes.
[[nodiscard]] RankParameters stored_weights(const StackSpec& stack, const GpuSpec& gpu,
                                            const RankParameters& held);
/// Returns the bytes of the weights of `held` parameters that full sharding keeps in shards, each
/// once. They are in 8 bits where the stack has them in 8 bits only.
[[nodiscard]] RankParameters weights_in_shards(const StackSpec& stack, const RankParameters& held);

/// Returns the bytes of `parameters` in the form in which they are gathered from shards.
[[nodiscard]] RankParameters gathered_weights(const StackSpec& stack,
                                              const RankParameters& parameters);

}  // namespace ptdp
