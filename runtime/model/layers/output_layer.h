// The last layer of the model: norm, logits, loss.
#pragma once

#include "runtime/model/layers/layer_norm.h"
#include "runtime/model/layers/linear.h"
#include "runtime/model/layers/vocab_parallel_cross_entropy.h"

namespace ptdp {

/// What a microbatch keeps of the end of the model; what is not kept at the time is empty.
struct OutputActivations {
  Tensor input;  ///< [r, h].
  NormStatistics statistics;
  Tensor normed;  ///< All rows, [n, h].
  Tensor logits;  ///< [n, V'/t]; their gradient after backward.
  CrossEntropyActivations cross_entropy;
};

/// logits = norm(x)·tableᵀ, columns split over the tensor-parallel group.
class OutputLayer {
 public:
  /// `table` as by declare_vocab_matrix, tied to the embedding or not. Declares final_norm.
  OutputLayer(const LayerContext& context, StoredParameter table);

  /// Adds the losses of all tokens to `total` (f64, one element).
  void forward(const Microbatch& microbatch, Tensor input, OutputActivations& activations,
               Buffer total) const;
  /// The gradient of the input, this rank's rows. Releases what is not needed any more.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, WeightGradients when,
                                OutputActivations& activations) const;
  /// Those that backward left for later, and releases everything.
  void weight_gradients(OutputActivations& activations) const;
  /// The same, into `table_gradient` alone.
  void weight_gradients_apart(OutputActivations& activations, Buffer table_gradient) const;

 private:
  const LayerContext& context_;
  LayerNorm norm_;
  Linear linear_;
  VocabParallelCrossEntropy cross_entropy_;
};

}  // namespace ptdp
