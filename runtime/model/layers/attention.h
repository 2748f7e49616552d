// Causal self-attention, the first branch of a layer.
#pragma once

#include "runtime/model/layers/column_parallel_linear.h"
#include "runtime/model/layers/row_parallel_linear.h"

namespace ptdp {

/// What a microbatch keeps of the attention. A tensor that is not kept at the time is empty.
struct AttentionActivations {
  Tensor normed;  ///< Input of the branch: this rank's rows, [r, h].
  Tensor qkv;     ///< Queries, keys and values, [n, heads/t, 3, d]; after backward, their gradient.
  Tensor output;  ///< Output of the attention core, [n, heads/t, d].
  Tensor log_sum;          ///< Logarithms of the softmax sums, [b, heads/t, s], accumulator type.
  Tensor output_gradient;  ///< Gradient of the projection's sum over ranks, [n, h].
};

/// Causal self-attention whose heads are split over the tensor-parallel group. The group's size
/// must divide their number.
class SelfAttention {
 public:
  /// Declares the parameters under `name`. `layer` counts over the model.
  SelfAttention(const LayerContext& context, int layer, const std::string& name);

  /// Returns residual + the branch of activations.normed, this rank's rows. Fills in what is kept.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Buffer residual,
                               AttentionActivations& activations) const;
  /// Computes output and log_sum from qkv again.
  void recompute_core(const Microbatch& microbatch, AttentionActivations& activations) const;
  /// Returns the gradient of the normed input, [n, h], of which own_rows() count. `dy` is the
  /// gradient of this rank's rows of the result. Releases what is not needed any more.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                                AttentionActivations& activations) const;
  /// Adds the weight gradients that backward() left for later, and releases all activations.
  void weight_gradients(AttentionActivations& activations) const;

 private:
  /// Returns the shape and dropout of the attention core on this rank.
  [[nodiscard]] Attention shape(const Microbatch& microbatch) const;
  /// Returns the width of this rank's heads, d·heads/t.
  [[nodiscard]] std::int64_t own_width() const;

  const LayerContext& context_;
  int layer_;
  ColumnParallelLinear qkv_;
  RowParallelLinear projection_;
};

}  // namespace ptdp
