// A linear layer whose inputs are split over the tensor-parallel group: the end of a residual
// branch.
#pragma once

#include "runtime/model/layers/linear.h"

namespace ptdp {

/// Each rank holds a block of columns of the weight and multiplies its part of the inputs; the
/// outputs are summed over ranks. Bias, dropout and residual follow. Source: Shoeybi et al.
/// (arXiv:1909.08053), section 3; Korthikanti et al. (arXiv:2205.05198), section 4.2.2.
class RowParallelLinear {
 public:
  /// Declares `name`.weight [h, inputs], and `name`.bias where the model has biases. tp must divide
  /// `inputs`.
  RowParallelLinear(const LayerContext& context, const std::string& name, std::int64_t inputs);

  /// residual + dropout(Σ input·Wᵀ + bias): this rank's rows, of input [n, inputs/t].
  [[nodiscard]] Tensor forward(Buffer input, Buffer residual, const Dropout& dropout,
                               const TokenRange& range) const;
  /// The gradient of the sum, [n, h] with all rows, from that of this rank's rows of the result.
  [[nodiscard]] Tensor output_gradient(Buffer dy, const Dropout& dropout,
                                       const TokenRange& range) const;
  /// dx [n, inputs/t].
  void input_gradient(Buffer output_gradient, Buffer dx) const;
  /// Of weight and bias.
  void weight_gradient(Buffer input, Buffer output_gradient) const;

 private:
  const LayerContext& context_;
  Linear linear_;
  StoredParameter bias_;
};

}  // namespace ptdp
