// Causal self-attention: the first branch of a layer.
#pragma once

#include "runtime/model/layers/column_parallel_linear.h"
#include "runtime/model/layers/row_parallel_linear.h"

namespace ptdp {

/// What a microbatch keeps; what is not kept at the time is empty.
struct AttentionActivations {
  Tensor normed;           ///< The input: this rank's rows [r, h].
  Tensor qkv;              ///< [n, heads/t, 3, d]; its gradient after backward.
  Tensor output;           ///< [n, heads/t, d].
  Tensor log_sum;          ///< [b, heads/t, s], accumulator.
  Tensor output_gradient;  ///< Of the projection's sum over ranks, [n, h].
};

/// Heads are split over the tensor-parallel group, which must divide them.
class SelfAttention {
 public:
  /// `layer` counts over the model.
  SelfAttention(const LayerContext& context, int layer, const std::string& name);

  /// residual + the branch of activations.normed, this rank's rows; fills in what is kept.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Buffer residual,
                               AttentionActivations& activations) const;
  /// Fills output and log_sum again from qkv.
  void recompute_core(const Microbatch& microbatch, AttentionActivations& activations) const;
  /// The gradient of the normed input, [n, h] of which own_rows() count, from `dy`, this rank's
  /// rows. Releases what is not needed any more.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                                AttentionActivations& activations) const;
  /// Those that backward left for later, and releases everything.
  void weight_gradients(AttentionActivations& activations) const;

 private:
  [[nodiscard]] Attention shape(const Microbatch& microbatch) const;
  [[nodiscard]] std::int64_t own_width() const;

  const LayerContext& context_;
  int layer_;
  ColumnParallelLinear qkv_;
  RowParallelLinear projection_;
};

}  // namespace ptdp
