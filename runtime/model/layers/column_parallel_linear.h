// A linear layer whose outputs are split over the tensor-parallel group.
#pragma once

#include <vector>

#include "runtime/model/layers/linear.h"

namespace ptdp {

/// Outputs of a linear layer that have a weight, and maybe a bias, of their own.
struct LinearOutputs {
  std::string name;        ///< Name of the weight without ".weight".
  std::int64_t count = 0;  ///< Number of outputs over all ranks.
};

/// A linear layer whose outputs are split over tensor-parallel ranks. Each rank holds a block of
/// rows of every weight and bias, and computes that part of the outputs from the whole input.
/// Weights lie side by side, so that one product serves all. Source: Shoeybi et al.
/// (arXiv:1909.08053), section 3; with sequence parallelism Korthikanti et al. (arXiv:2205.05198),
/// section 4.2.2.
class ColumnParallelLinear {
 public:
  /// Declares a weight [count, h] for each of `outputs`, then their biases if there are any. tp
  /// must divide each count.
  ColumnParallelLinear(const LayerContext& context, const std::vector<LinearOutputs>& outputs,
                       bool has_bias);

  /// Returns x·Wᵀ + bias, [n, outputs/t], from this rank's rows of the input.
  [[nodiscard]] Tensor forward(Buffer input) const;
  /// Returns a(x·Wᵀ + bias), [n, outputs/t], from this rank's rows of the input. Keeps the input of
  /// the activation a, of the same shape, in `activation_input`.
  [[nodiscard]] Tensor forward_activated(Buffer input, ActivationKind kind,
                                         Tensor& activation_input) const;
  /// Returns the input's gradient, [n, h]. Its own_rows() are summed over ranks.
  [[nodiscard]] Tensor input_gradient(Buffer dy) const;
  /// Adds the gradients of weight and bias, from this rank's rows of the input, which are gathered
  /// again.
  void weight_gradient(Buffer input, Buffer dy) const;
  /// Adds the gradients of weight and bias, returns the input's gradient, and releases its
  /// arguments. When the settings overlap, the input is gathered behind the product that gives its
  /// gradient. That gradient is then summed over ranks behind the product for the weight's
  /// gradient.
  [[nodiscard]] Tensor gradients(Tensor input, Tensor dy) const;

 private:
  /// Returns this rank's part of the bias, [outputs/t], or an empty buffer without one.
  [[nodiscard]] Buffer bias() const;
  /// Adds the gradients of weight and bias from all rows of the input.
  void add_weight_gradient(Buffer rows, Buffer dy) const;

  const LayerContext& context_;
  Linear linear_;
  StoredParameter bias_;
};

}  // namespace ptdp
