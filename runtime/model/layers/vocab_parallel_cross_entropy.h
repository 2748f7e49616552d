// The loss of logits whose columns are split over the tensor-parallel group.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// Of all rows, accumulator.
struct CrossEntropyActivations {
  Tensor maxima;  ///< [n].
  Tensor sums;    ///< [2, n]: Σ exp(logit − maximum), target's logit − maximum.
};

/// Softmax and cross-entropy; columns that pad the vocabulary take no part. Sends three accumulator
/// values per token: an all-reduce of the maxima, and one of the sums. Source: Shoeybi et al.
/// (arXiv:1909.08053), section 3.
class VocabParallelCrossEntropy {
 public:
  explicit VocabParallelCrossEntropy(const LayerContext& context) : context_(context) {}

  /// Adds the losses of all tokens to `total` (f64, one element). Logits [n, V'/t].
  [[nodiscard]] CrossEntropyActivations forward(const Microbatch& microbatch, Buffer logits,
                                                Buffer total) const;
  /// `logits` become their gradient.
  void backward(const Microbatch& microbatch, const CrossEntropyActivations& activations,
                Buffer logits) const;

 private:
  const LayerContext& context_;
};

}  // namespace ptdp
