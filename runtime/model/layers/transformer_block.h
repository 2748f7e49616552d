// A layer of the model: two residual branches, each behind a norm.
#pragma once

#include "runtime/model/layers/attention.h"
#include "runtime/model/layers/layer_norm.h"
#include "runtime/model/layers/mlp.h"

namespace ptdp {

/// What a microbatch keeps of a layer; what is not kept at the time is empty.
struct BlockActivations {
  Tensor input;  ///< x, [r, h].
  NormStatistics statistics1;
  AttentionActivations attention;
  Tensor middle;  ///< x2 = x + attention(norm1(x)), [r, h].
  NormStatistics statistics2;
  MlpActivations mlp;
};

/// x2 = x + attention(norm1(x)); y = x2 + MLP(norm2(x2)). Source: Radford et al., Language models
/// are unsupervised multitask learners (GPT-2), section 2.3.
class TransformerBlock {
 public:
  /// `layer` counts over the model.
  TransformerBlock(const LayerContext& context, int layer);

  /// y of x = `input`, this rank's rows. Keeps what the recomputation in use does not compute
  /// again.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Tensor input,
                               BlockActivations& activations) const;
  /// `gradient` is that of y, this rank's rows, and becomes that of x.
  void backward(const Microbatch& microbatch, Buffer gradient, WeightGradients when,
                BlockActivations& activations) const;
  /// Those that backward left for later, and releases everything.
  void weight_gradients(BlockActivations& activations) const;

 private:
  [[nodiscard]] Tensor compute(const Microbatch& microbatch, BlockActivations& activations) const;

  const LayerContext& context_;
  LayerNorm norm1_;
  SelfAttention attention_;
  LayerNorm norm2_;
  Mlp mlp_;
};

}  // namespace ptdp
