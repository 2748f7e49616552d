// The MLP, the second branch of a layer.
#pragma once

#include "runtime/model/layers/column_parallel_linear.h"
#include "runtime/model/layers/row_parallel_linear.h"

namespace ptdp {

/// What a microbatch keeps of the MLP. A tensor that is not kept at the time is empty.
struct MlpActivations {
  Tensor normed;  ///< Input of the branch: this rank's rows, [r, h].
  /// Output of the first product with its bias, [n, f/t], or gates and values [n, 2f/t] in a gated
  /// MLP; after backward, its gradient, which has other memory if there is no gate.
  Tensor up;
  Tensor activated;        ///< Activation of `up`, times the values in a gated MLP, [n, f/t].
  Tensor output_gradient;  ///< Gradient of fc2's sum over ranks, [n, h].
};

/// The MLP fc2(a(fc1(x))), or fc2(a(gate(x))·up(x)) if it is gated. The size of the tensor-parallel
/// group must divide its width f.
class Mlp {
 public:
  /// Declares the parameters under `name`. `layer` counts over the model.
  Mlp(const LayerContext& context, int layer, const std::string& name);

  /// Returns residual + the branch of activations.normed, this rank's rows. Fills in what is kept.
  /// `residual` may be empty.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Buffer residual,
                               MlpActivations& activations) const;
  /// Returns the gradient of the normed input, [n, h], of which own_rows() count. `dy` is the
  /// gradient of this rank's rows of the result. Releases what is not needed any more. Where weight
  /// gradients wait and activations.output_gradient is empty, the caller must put dy there.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, Buffer dy, WeightGradients when,
                                MlpActivations& activations) const;
  /// Adds the weight gradients that backward() left for later, and releases all activations.
  void weight_gradients(MlpActivations& activations) const;
  /// Returns RowParallelLinear::bias_gradient_of_norm() of the last product.
  [[nodiscard]] Buffer bias_gradient_of_norm() const { return fc2_.bias_gradient_of_norm(); }

 private:
  /// Fills in `up` and `activated`.
  void activate(MlpActivations& activations) const;
  /// Replaces `up` by its gradient, from the gradient `of_sum` of the branch's result. `gradient`
  /// is memory of [n, f/t].
  void activation_backward(Buffer of_sum, Tensor gradient, MlpActivations& activations) const;

  const LayerContext& context_;
  int layer_;
  ActivationKind kind_;
  ColumnParallelLinear fc1_;
  RowParallelLinear fc2_;
};

}  // namespace ptdp
