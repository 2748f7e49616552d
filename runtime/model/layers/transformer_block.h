// A layer of the model: two residual branches with their norms.
#pragma once

#include <optional>

#include "runtime/model/layers/attention.h"
#include "runtime/model/layers/mlp.h"
#include "runtime/model/layers/norm.h"

namespace ptdp {

/// What a microbatch keeps of a norm behind a branch.
struct NormBehindActivations {
  Tensor branch;  ///< Result of the branch, the norm's input, [r, h].
  NormStatistics statistics;
};

/// What a microbatch keeps of a layer. A tensor that is not kept at the time is empty. Without
/// norms before branches, the input and the middle are kept as inputs of their branches.
struct BlockActivations {
  Tensor input;  ///< Input of the layer x, [r, h].
  NormStatistics statistics1;
  AttentionActivations attention;
  NormBehindActivations behind1;
  Tensor middle;  ///< Sum after the first branch, [r, h].
  NormStatistics statistics2;
  MlpActivations mlp;
  NormBehindActivations behind2;
};

/// A transformer layer of two branches:
///
///   norms before  x2 = x + attention(norm1(x)),          y = x2 + MLP(norm2(x2))
///   parallel      y = x + attention(norm1(x)) + MLP(norm2(x))
///   norms behind  x2 = x + norm1'(attention(x)),         y = x2 + norm2'(MLP(x2))
///   both          x2 = x + norm1'(attention(norm1(x))),  y = x2 + norm2'(MLP(norm2(x2)))
///
/// Each branch is multiplied by the model's residual_multiplier before it is added.
///
/// Sources: Radford et al., Language models are unsupervised multitask learners (GPT-2), section
/// 2.3; GPT-NeoX (arXiv:2204.06745) section 2.1; OLMo 2 (arXiv:2501.00656) section 3.2; Gemma 2
/// (arXiv:2408.00118) section 2; modeling_granite.py of huggingface/transformers 5.12.1.
class TransformerBlock {
 public:
  /// Declares the parameters. `layer` counts over the model.
  TransformerBlock(const LayerContext& context, int layer);

  /// Returns y for x = `input`, this rank's rows. Keeps what the recomputation in use does not
  /// compute again.
  [[nodiscard]] Tensor forward(const Microbatch& microbatch, Tensor input,
                               BlockActivations& activations) const;
  /// Turns `gradient` from that of y into that of x, this rank's rows.
  void backward(const Microbatch& microbatch, Tensor& gradient, WeightGradients when,
                BlockActivations& activations) const;
  /// Adds the weight gradients that backward() left for later, and releases all activations.
  void weight_gradients(BlockActivations& activations) const;

 private:
  /// Computes y from activations.input, and keeps all other activations.
  [[nodiscard]] Tensor compute(const Microbatch& microbatch, BlockActivations& activations) const;
  /// Makes `normed` the input of a branch: the norm of x, or without a norm x itself. Returns where
  /// x is then.
  [[nodiscard]] Buffer enter(const std::optional<Norm>& norm, Tensor& x, Tensor& normed,
                             NormStatistics& statistics) const;
  /// Computes x2 and what the MLP takes of it, from where x is.
  void compute_middle(const Microbatch& microbatch, Buffer x, BlockActivations& activations) const;
  /// Returns the sum of x and of a branch's result behind a norm, multiplied. Computes the norm of
  /// the sum, too, where `next` has one.
  [[nodiscard]] Tensor leave(const Norm& norm, Tensor branch, Buffer x,
                             NormBehindActivations& behind, const NormOfSum& next = {}) const;
  /// Returns the gradient of a branch's result from that of the sum; empty without a norm behind
  /// the branch, where both are equal.
  [[nodiscard]] Tensor leave_backward(const std::optional<Norm>& norm, Buffer gradient,
                                      NormBehindActivations& behind) const;
  /// The gradient on its way through the residuals, and what else the norms in front of branches
  /// make of it.
  struct PassedGradient {
    Tensor& gradient;
    /// What becomes the gradient before the norm adds to it; null where nothing keeps that.
    Tensor* kept = nullptr;
    /// What the sum over rows of the gradient before is added to; may be empty.
    Buffer sum = {};
  };
  /// Adds to a gradient what reaches the input x of a norm through it, and releases its statistics.
  /// Where the gradient before is kept, the sum is a tensor of its own.
  void norm_backward(const Norm& norm, Buffer normed_gradient, Buffer x, NormStatistics statistics,
                     const PassedGradient& passed) const;
  /// Does so for the input x of a branch, which may have no norm, and releases x.
  void enter_backward(const std::optional<Norm>& norm, Buffer normed_gradient, Tensor x,
                      NormStatistics statistics, const PassedGradient& passed) const;
  /// Keeps the gradient of a branch's result for a weight gradient that waits, if the branch has
  /// kept none of its own: `branch`, which is released otherwise. Without a norm behind the branch
  /// that is empty, and the result is where to keep the gradient of the sum; else null.
  [[nodiscard]] static Tensor* keep(WeightGradients when, Tensor& branch, Tensor& output_gradient);
  /// Computes the gradient of a layer of which both branches take the layer's input.
  void backward_parallel(const Microbatch& microbatch, Tensor& gradient, WeightGradients when,
                         BlockActivations& activations) const;
  /// Computes the core of attention again where it was not kept.
  void recompute_core(const Microbatch& microbatch, AttentionActivations& activations) const;

  const LayerContext& context_;
  // Declared in this order, which is that of the parameters.
  std::optional<Norm> norm1_;
  SelfAttention attention_;
  std::optional<Norm> behind1_;
  std::optional<Norm> norm2_;
  Mlp mlp_;
  std::optional<Norm> behind2_;
};

}  // namespace ptdp
