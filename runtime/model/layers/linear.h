// The matrix products of a linear layer on one rank, over all rows.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// The products of y[n, outputs] = x[n, inputs]·Wᵀ, with W [outputs, inputs] as this rank holds it.
class Linear {
 public:
  Linear(const LayerContext& context, StoredParameter weight, std::int64_t inputs,
         std::int64_t outputs)
      : context_(context), weight_(weight), inputs_(inputs), outputs_(outputs) {}

  [[nodiscard]] std::int64_t inputs() const { return inputs_; }
  [[nodiscard]] std::int64_t outputs() const { return outputs_; }

  /// Computes y = x·Wᵀ + bias. The bias may be empty.
  void forward(Buffer x, Buffer bias, Buffer y) const;
  /// Computes x·Wᵀ + bias, the input of an activation, and the activation's output y. The bias may
  /// be empty.
  void forward_activated(Buffer x, Buffer bias, ActivationKind kind, Buffer activation_input,
                         Buffer y) const;
  /// Computes dx = dy·W.
  void input_gradient(Buffer dy, Buffer dx) const;
  /// Computes dx = dy·W times the derivative of the activation whose output was this layer's input,
  /// at the activation's input.
  void activated_input_gradient(Buffer dy, ActivationKind kind, Buffer activation_input,
                                Buffer dx) const;
  /// Adds dyᵀ·x to the weight's gradient, and the sum of the rows of dy to `bias_gradient`, which
  /// may be empty.
  void weight_gradient(Buffer x, Buffer dy, Buffer bias_gradient) const;
  /// Writes dyᵀ·x into `gradient` and leaves the weight's gradient alone.
  void weight_gradient_apart(Buffer x, Buffer dy, Buffer gradient) const;

 private:
  void multiply(const Matmul& product, Buffer a, Buffer b, Buffer c) const;
  void multiply(const EpilogueCall& call) const;
  void weight_gradient(const Matmul& product, Buffer x, Buffer dy, Buffer gradient,
                       Buffer bias_gradient) const;

  const LayerContext& context_;
  StoredParameter weight_;
  std::int64_t inputs_;
  std::int64_t outputs_;
};

}  // namespace ptdp
