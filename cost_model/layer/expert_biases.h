// What PyTorch's operations cost for biases of experts and bounds of their activation, where a
// stack has no kernels that do both (StackSpec::fused_expert_biases).
#pragma once

#include "cost_model/inputs/stack_spec.h"
#include "cost_model/inputs/transformer_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Whether operations of their own bound what enters the activation of experts.
[[nodiscard]] bool bounds_apart(const TransformerConfig& model, const StackSpec& stack);

/// Traffic of a layer's memory for biases and bounds of its experts, per microbatch.
struct ExpertBiasTraffic {
  Bytes forward;   ///< Traffic of the forward pass.
  Bytes backward;  ///< Traffic of the backward pass.
  Bytes bounds;    ///< The part of `forward` that recomputing the activation repeats.
};
/// Computes the traffic of biases and bounds of `rows` rows of experts `width` wide: V and f/etp of
/// expert_costs(). Numbers have e bytes, and weights of visits w, which is 4 where a dispatcher
/// sends them as fp32 (DeepEP, HybridEP), else e:
///
///   bounds    8Vf·e forward: both halves of the first product bounded, and put together again;
///             Vf(11e + 8) backward: three comparisons and a conjunction of a byte each, two
///             selections, and the halves put together
///   biases    of the second product, in V·h numbers. Forward 5w + e: a bias times its weight, the
///             sum, all experts' put together. Backward 6w + 2e: two products and sums for the
///             gradients of the bias and of the weights, all experts' put together. Where w is not
///             e, conversions add w + e forward and twice that backward
///
/// Biases of the first product are part of the product.
///
/// Source: counted from Megatron-Core b0cc2706dd, moe/experts.py (TEGroupedMLP._apply_bias) and
/// fusions/fused_bias_geglu.py (weighted_bias_quick_geglu_impl), and PyTorch's autograd
/// (FunctionsManual.cpp, clamp_backward).
[[nodiscard]] ExpertBiasTraffic expert_bias_traffic(const TransformerConfig& model,
                                                    const StackSpec& stack, double rows,
                                                    double width);

/// Kernels of biases and bounds of the experts of a layer, per microbatch.
struct ExpertBiasKernels {
  double forward = 0.0;   ///< Kernels of the forward pass.
  double backward = 0.0;  ///< Kernels of the backward pass.
  double bounds = 0.0;    ///< The part of `forward` that recomputing the activation repeats.
};
/// Counts the kernels of expert_bias_traffic() for `experts` experts on a rank. Bounds take 4
/// forward, with the offset of the gate, and 7 backward. Biases take two of each expert and one
/// forward. Backward they take four of each expert, two that add the gradients of its biases to
/// their sums, and two that put parts together. Conversions add one forward, and backward one and
/// two of each expert.
[[nodiscard]] ExpertBiasKernels expert_bias_kernels(const TransformerConfig& model,
                                                    const StackSpec& stack, double experts);

}  // namespace ptdp
