// Layer norm over the rows of this rank.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// Of the rows of a norm's input: [rows] each, accumulator.
struct NormStatistics {
  Tensor mean;
  Tensor rstd;
};

class LayerNorm {
 public:
  /// Declares `name`.gamma and `name`.beta.
  LayerNorm(const LayerContext& context, const std::string& name);

  /// y = norm(x), both this rank's rows.
  [[nodiscard]] NormStatistics forward(Buffer x, Buffer y) const;
  /// dx += the gradient of x; adds the gradients of gamma and beta to theirs.
  void backward(Buffer dy, Buffer x, const NormStatistics& statistics, Buffer dx) const;

 private:
  const LayerContext& context_;
  StoredParameter gamma_;
  StoredParameter beta_;
};

}  // namespace ptdp
