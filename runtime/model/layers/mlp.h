// The MLP: the second branch of a layer.
#pragma once

#include "runtime/model/layers/column_parallel_linear.h"
#include "runtime/model/layers/row_parallel_linear.h"

namespace ptdp {

/// What a microbatch keeps; what is not kept at the time is empty.
struct MlpActivations {
  Tensor normed;           ///< The input: this rank's rows [r, h].
  Tensor up;               ///< Of fc1, with its bias: [n, f/t]; its gradient after backward.
  Tensor gelu;             ///< [n, f/t].
  Tensor output_gradient;  ///< Of fc2's sum over ranks, [n, h].
};

/// fc2(GELU(fc1)). The tensor-parallel group must divide its width f.
class Mlp {
 public:
  /// `layer` counts over the model.
  Mlp(const LayerContext& context, int layer, const std::string& name);

  /// residual + the branch of activations.normed, this rank's rows; fills in what is kept.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Buffer residual,
                               MlpActivations& activations) const;
  /// The gradient of the normed input, [n, h] of which own_rows() count, from `dy`, this rank's
  /// rows. Releases what is not needed any more.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                                MlpActivations& activations) const;
  /// Those that backward left for later, and releases everything.
  void weight_gradients(MlpActivations& activations) const;

 private:
  const LayerContext& context_;
  int layer_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
};

}  // namespace ptdp
