// A linear layer whose outputs are split over the tensor-parallel group.
#pragma once

#include "runtime/model/layers/linear.h"

namespace ptdp {

/// Each rank holds a block of rows of the weight and of the bias, and computes that part of the
/// outputs from the whole input. Source: Shoeybi et al. (arXiv:1909.08053), section 3; with
/// sequence parallelism Korthikanti et al. (arXiv:2205.05198), section 4.2.2.
class ColumnParallelLinear {
 public:
  /// Declares `name`.weight [outputs, h], and `name`.bias where the model has biases. tp must
  /// divide `outputs`.
  ColumnParallelLinear(const LayerContext& context, const std::string& name, std::int64_t outputs);

  /// [n, outputs/t], without the bias, of this rank's rows of the input.
  [[nodiscard]] Tensor forward(Buffer input) const;
  /// [outputs/t], or empty.
  [[nodiscard]] Buffer bias() const;
  /// The input's gradient, [n, h]: own_rows() of it are summed over ranks.
  [[nodiscard]] Tensor input_gradient(Buffer dy) const;
  /// Of weight and bias, from this rank's rows of the input, which are gathered again.
  void weight_gradient(Buffer input, Buffer dy) const;
  /// All of these gradients, of which the input's is returned; releases what it takes. Where the
  /// settings overlap, the input is gathered behind the product of its gradient, and that is summed
  /// over ranks behind the product of the weight's.
  [[nodiscard]] Tensor gradients(Tensor input, Tensor dy) const;

 private:
  void add_weight_gradient(Buffer rows, Buffer dy) const;

  const LayerContext& context_;
  Linear linear_;
  StoredParameter bias_;
};

}  // namespace ptdp
