// A linear layer whose inputs are split over the tensor-parallel group. It is the end of a residual
// branch.
#pragma once

#include "runtime/model/layers/linear.h"
#include "runtime/model/layers/norm.h"

namespace ptdp {

/// A linear layer whose inputs are split over tensor-parallel ranks. Each rank holds a block of
/// columns of the weight and multiplies its part of the inputs. The outputs are summed over ranks;
/// bias, dropout and residual follow. Source: Shoeybi et al. (arXiv:1909.08053), section 3;
/// Korthikanti et al. (arXiv:2205.05198), section 4.2.2.
class RowParallelLinear {
 public:
  /// Declares `name`.weight [h, inputs], and `name`.bias if there is one. tp must divide `inputs`.
  RowParallelLinear(const LayerContext& context, const std::string& name, std::int64_t inputs,
                    bool has_bias);

  /// Returns residual + m·dropout(Σ input·Wᵀ + bias), this rank's rows. `input` is [n, inputs/t],
  /// and `residual` may be empty. m is the model's residual_multiplier, or 1 where a norm is behind
  /// the branch, whose result is multiplied. Computes the norm of the result, too, where `next` has
  /// one, which needs a residual.
  [[nodiscard]] Tensor forward(Buffer input, Buffer residual, const Dropout& dropout,
                               const TokenRange& range, const NormOfSum& next = {}) const;
  /// Returns the gradient of the sum over ranks, all rows, [n, h]. `dy` is the gradient of this
  /// rank's rows of the result. The tensor is empty where dy is that gradient itself.
  [[nodiscard]] Tensor output_gradient(Buffer dy, const Dropout& dropout,
                                       const TokenRange& range) const;
  /// Computes the gradient of the inputs, dx [n, inputs/t].
  void input_gradient(Buffer output_gradient, Buffer dx) const;
  /// Computes the gradient of the input, dx [n, inputs/t], of the activation whose output was the
  /// inputs. `activation_input` is that input.
  void activated_input_gradient(Buffer output_gradient, ActivationKind kind,
                                Buffer activation_input, Buffer dx) const;
  /// Adds the gradients of weight and bias; that of the bias unless a norm sums it.
  void weight_gradient(Buffer input, Buffer output_gradient) const;
  /// Returns the gradient of the bias where the norm in front of the branch must sum it, from the
  /// gradients of the branch's result. It is empty where weight_gradient() does, or without a bias.
  [[nodiscard]] Buffer bias_gradient_of_norm() const;

 private:
  const LayerContext& context_;
  Linear linear_;
  StoredParameter bias_;
  bool norm_sums_bias_ = false;  ///< Whether a norm sums the bias's gradient.
  double scale_;                 ///< Factor m of the branch.
};

}  // namespace ptdp
