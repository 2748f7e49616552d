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

  /// Computes y = x·Wᵀ.
  void forward(Buffer x, Buffer y) const;
  /// Computes dx = dy·W.
  void input_gradient(Buffer dy, Buffer dx) const;
  /// Adds dyᵀ·x to the weight's gradient.
  void weight_gradient(Buffer x, Buffer dy) const;
  /// Writes dyᵀ·x into `gradient` and leaves the weight's gradient alone.
  void weight_gradient_apart(Buffer x, Buffer dy, Buffer gradient) const;

 private:
  void multiply(const Matmul& product, Buffer a, Buffer b, Buffer c) const;

  const LayerContext& context_;
  StoredParameter weight_;
  std::int64_t inputs_;
  std::int64_t outputs_;
};

}  // namespace ptdp
