// A layer of the model: two residual branches, each behind a norm.
#pragma once

#include "runtime/model/layers/attention.h"
#include "runtime/model/layers/layer_norm.h"
#include "runtime/model/layers/mlp.h"

namespace ptdp {

/// What a microbatch keeps of a layer. A tensor that is not kept at the time is empty.
struct BlockActivations {
  Tensor input;  ///< Input of the layer x, [r, h].
  NormStatistics statistics1;
  AttentionActivations attention;
  Tensor middle;  ///< Sum after the first branch, x2 = x + attention(norm1(x)), [r, h].
  NormStatistics statistics2;
  MlpActivations mlp;
};

/// A transformer layer: x2 = x + attention(norm1(x)); y = x2 + MLP(norm2(x2)). Source: Radford et
/// al., Language models are unsupervised multitask learners (GPT-2), section 2.3.
class TransformerBlock {
 public:
  /// Declares the parameters. `layer` counts over the model.
  TransformerBlock(const LayerContext& context, int layer);

  /// Returns y for x = `input`, this rank's rows. Keeps what the recomputation in use does not
  /// compute again.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Tensor input,
                               BlockActivations& activations) const;
  /// Turns `gradient` from that of y into that of x, this rank's rows.
  void backward(const Microbatch& microbatch, Buffer gradient, WeightGradients when,
                BlockActivations& activations) const;
  /// Adds the weight gradients that backward() left for later, and releases all activations.
  void weight_gradients(BlockActivations& activations) const;

 private:
  /// Computes y from activations.input, and keeps all other activations.
  [[nodiscard]] Tensor compute(const Microbatch& microbatch, BlockActivations& activations) const;

  const LayerContext& context_;
  LayerNorm norm1_;
  SelfAttention attention_;
  LayerNorm norm2_;
  Mlp mlp_;
};

}  // namespace ptdp
