// Layer norm over the rows of this rank.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// Statistics of the rows of a norm's input: [rows] each, accumulator type.
struct NormStatistics {
  Tensor mean;
  Tensor rstd;
};

/// A layer norm with gain and bias, over this rank's rows.
class LayerNorm {
 public:
  /// Declares `name`.gamma and `name`.beta.
  LayerNorm(const LayerContext& context, const std::string& name);

  /// Computes y = norm(x) on this rank's rows, and returns the rows' statistics.
  [[nodiscard]] NormStatistics forward(Buffer x, Buffer y) const;
  /// Adds the gradient of x to dx, and adds the gradients of gamma and beta to their stored ones.
  void backward(Buffer dy, Buffer x, const NormStatistics& statistics, Buffer dx) const;

 private:
  const LayerContext& context_;
  StoredParameter gamma_;
  StoredParameter beta_;
};

}  // namespace ptdp
