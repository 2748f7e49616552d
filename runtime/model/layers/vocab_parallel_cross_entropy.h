// The loss of logits whose columns are split over the tensor-parallel group.
#pragma once

#include "runtime/model/layers/layer_context.h"

namespace ptdp {

/// What a microbatch keeps of the loss, for all rows, in the accumulator type.
struct CrossEntropyActivations {
  Tensor maxima;  ///< Largest logit of each row, [n].
  Tensor sums;  ///< Per row Σ exp(logit − maximum), then the target's logit − maximum, [2, n].
};

/// Softmax and cross-entropy. Columns that pad the vocabulary take no part. Sends three accumulator
/// values per token: an all-reduce of the maxima, and one of the sums. Source: Shoeybi et al.
/// (arXiv:1909.08053), section 3.
class VocabParallelCrossEntropy {
 public:
  explicit VocabParallelCrossEntropy(const LayerContext& context) : context_(context) {}

  /// Adds the losses of all tokens to `total` (f64, one element). `logits` are [n, V'/t].
  [[nodiscard]] CrossEntropyActivations forward(const Microbatch& microbatch, Buffer logits,
                                                Buffer total) const;
  /// Replaces `logits` by their gradient.
  void backward(const Microbatch& microbatch, const CrossEntropyActivations& activations,
                Buffer logits) const;

 private:
  const LayerContext& context_;
};

}  // namespace ptdp
