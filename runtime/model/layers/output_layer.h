// The last layer of the model: norm, logits and loss.
#pragma once

#include "runtime/model/layers/linear.h"
#include "runtime/model/layers/norm.h"
#include "runtime/model/layers/vocab_parallel_cross_entropy.h"

namespace ptdp {

/// What a microbatch keeps of the end of the model. A tensor that is not kept at the time is empty.
struct OutputActivations {
  Tensor input;  ///< Input of the final norm, this rank's rows, [r, h].
  NormStatistics statistics;
  Tensor normed;  ///< Output of the final norm, all rows, [n, h].
  Tensor logits;  ///< Logits, [n, V'/t]; after backward, their gradient.
  CrossEntropyActivations cross_entropy;
};

/// The final norm, logits = norm(x)·tableᵀ and the loss. Columns of the logits are split over the
/// tensor-parallel group.
class OutputLayer {
 public:
  /// Declares final_norm. `table` comes from declare_vocab_matrix(), tied to the embedding or not.
  OutputLayer(const LayerContext& context, StoredParameter table);

  /// Adds the losses of all tokens to `total` (f64, one element).
  void forward(const Microbatch& microbatch, Tensor input, OutputActivations& activations,
               Buffer total) const;
  /// Returns the gradient of the input, this rank's rows. Releases what is not needed any more.
  [[nodiscard]] Tensor backward(const Microbatch& microbatch, WeightGradients when,
                                OutputActivations& activations) const;
  /// Adds the weight gradients that backward() left for later, and releases all activations.
  void weight_gradients(OutputActivations& activations) const;
  /// Writes the table's gradient that backward() left for later into `table_gradient` alone, and
  /// releases all activations.
  void weight_gradients_apart(OutputActivations& activations, Buffer table_gradient) const;

 private:
  const LayerContext& context_;
  Norm norm_;
  Linear linear_;
  VocabParallelCrossEntropy cross_entropy_;
};

}  // namespace ptdp
