#include "cost_model/layer/element_wise_operations.h"

#include <utility>

#include "cost_model/inputs/rank_sizes.h"
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

/// Whether only the number of elements matters to an operation, so that it is measured as one row.
bool is_flat(DeviceOperation operation) {
  return operation == DeviceOperation::kCopy || operation == DeviceOperation::kFill ||
         operation == DeviceOperation::kAdd || operation == DeviceOperation::kScale ||
         operation == DeviceOperation::kSoftCap || operation == DeviceOperation::kGeluBackward ||
         operation == DeviceOperation::kAddSquares || operation == DeviceOperation::kAdamW ||
         operation == DeviceOperation::kGeluEpilogue;
}

/// Returns the operation that ends a branch of a layer, or the embedding: a sum of what there is,
/// with dropout.
DeviceOperation sum_with(bool has_bias, bool has_residual, bool drops) {
  if (drops) {
    return has_bias || has_residual ? DeviceOperation::kBiasDropoutAdd
                                    : DeviceOperation::kDropoutBackward;
  }
  if (has_bias) {
    return has_residual ? DeviceOperation::kBiasAdd : DeviceOperation::kBias;
  }
  return has_residual ? DeviceOperation::kAdd : DeviceOperation::kCopy;
}

/// Collects operations on the rows of a configuration's microbatch on one rank.
class Operations {
 public:
  Operations(const TransformerConfig& model, const ParallelConfig& config,
             const FusedEpilogues& fused = {})
      : model_(model),
        fused_(fused),
        tp_(config.tp),
        rows_(static_cast<double>(tokens_of_rank(model, config))),
        own_rows_(config.sequence_parallel ? rows_ / config.tp : rows_),
        copies_own_rows_(config.sequence_parallel && config.tp > 1),
        waits_(traits_of(config.schedule).splits_backward) {}

  [[nodiscard]] double rows() const { return rows_; }
  [[nodiscard]] double hidden() const { return model_.hidden_size; }
  /// Returns a rank's share of a width over all ranks.
  [[nodiscard]] double share(double width) const { return width / tp_; }

  void add(OperationPass pass, DeviceOperation operation, double rows, double width) {
    list_.push_back({operation, element_wise_sizes(operation, rows, width), pass});
  }
  /// Adds an operation on all rows, `width` wide.
  void on_all_rows(OperationPass pass, DeviceOperation operation, double width) {
    add(pass, operation, rows_, width);
  }
  /// Adds an operation on this rank's own rows, of the hidden width. With sequence parallelism
  /// these are 1/tp of all rows.
  void on_own_rows(OperationPass pass, DeviceOperation operation) {
    add(pass, operation, own_rows_, hidden());
  }
  /// Adds the copy of own rows before they are gathered, if they are.
  void copy(OperationPass pass) {
    if (copies_own_rows_) {
      on_own_rows(pass, DeviceOperation::kCopy);
    }
  }
  /// Adds a norm of `rows` vectors, and its gradient.
  void norm(double rows, double width) {
    add(OperationPass::kForward, forward_norm(), rows, width);
    norm_backward(rows, width);
  }
  void norm_of_own_rows() { norm(own_rows_, hidden()); }
  void norm_backward(double rows, double width) {
    add(OperationPass::kInputGradient, backward_norm(), rows, width);
  }

  // The parts of a layer.

  /// Whether the middle of a layer is normed where it is made, as a sum.
  [[nodiscard]] bool norms_middle() const {
    return model_.norm_placement != NormPlacement::kBehind && !model_.parallel_residual;
  }
  /// Whether norms in front of branches sum the gradients of biases at the branches' ends.
  [[nodiscard]] bool sums_biases() const {
    return sums_biases_in_norms(model_, dropout_rates(model_).hidden);
  }
  /// Adds what is in front of a branch: its norm, if there is one there, which may be computed with
  /// the sum before. A branch without one adds its gradient to the residual's. `has_bias` says
  /// whether the branch ends with a bias.
  void enter_branch(bool is_normed, bool has_bias) {
    if (model_.norm_placement == NormPlacement::kBehind) {
      on_own_rows(OperationPass::kInputGradient, DeviceOperation::kAdd);
    } else {
      if (!is_normed) {
        on_own_rows(OperationPass::kForward, forward_norm());
      }
      on_own_rows(OperationPass::kInputGradient,
                  has_bias && sums_biases() ? backward_norm_with_bias() : backward_norm());
    }
    copy(OperationPass::kForward);
    copy(OperationPass::kWeightGradient);
  }
  /// Adds what is in front of the second branch: nothing but a sum of gradients if the branches
  /// share a norm.
  void enter_second_branch(bool has_bias) {
    if (model_.shared_residual_norm) {
      on_own_rows(OperationPass::kInputGradient, DeviceOperation::kAdd);
    } else {
      enter_branch(/*is_normed=*/norms_middle(), has_bias);
    }
  }
  /// Whether the last product of a branch takes the gradient of the branch's result as it is.
  [[nodiscard]] bool passes_gradient() const {
    const bool is_scaled =
        model_.norm_placement == NormPlacement::kBefore && model_.residual_multiplier != 1.0;
    return dropout_rates(model_).hidden == 0.0 && !copies_own_rows_ && !is_scaled;
  }
  /// Adds the copy of such a gradient that two branches keep for weight gradients that wait.
  void keep_gradient() {
    if (model_.parallel_residual && waits_ && passes_gradient()) {
      on_own_rows(OperationPass::kInputGradient, DeviceOperation::kCopy);
    }
  }
  /// Adds what is behind the last product of a branch: bias, dropout, norm and residual. The sum
  /// with the residual may be normed for the next branch.
  void leave_branch(bool has_bias, bool norms_sum) {
    const bool drops = dropout_rates(model_).hidden > 0.0;
    const bool is_normed = model_.norm_placement != NormPlacement::kBefore;
    if (!is_normed && norms_sum) {
      on_own_rows(OperationPass::kForward, sum_norm(drops));
    } else if (has_bias || !is_normed || drops || copies_own_rows_) {
      on_own_rows(OperationPass::kForward, sum_with(has_bias, !is_normed, drops));
    }
    if (drops) {
      on_own_rows(OperationPass::kInputGradient, DeviceOperation::kDropoutBackward);
    } else if (!passes_gradient()) {
      on_own_rows(OperationPass::kInputGradient, DeviceOperation::kCopy);
    }
    if (has_bias && !sums_biases()) {
      branch_bias_gradient();
    }
    if (is_normed) {
      norm_of_own_rows();
      on_own_rows(OperationPass::kForward,
                  norms_sum ? sum_norm(/*drops=*/false) : DeviceOperation::kAdd);
      if (model_.residual_multiplier != 1.0) {
        // Elsewhere other passes multiply, too; the gradient of this norm alone lacks one.
        on_own_rows(OperationPass::kInputGradient, DeviceOperation::kCopy);
      }
    }
  }
  /// Adds the gradient of the bias at the end of a branch, which no norm sums.
  void branch_bias_gradient() {
    if (tp_ > 1) {
      // Ranks hold copies of the bias: no product sums its gradient (row_parallel_linear.cpp).
      on_own_rows(OperationPass::kWeightGradient, DeviceOperation::kBiasGradient);
    } else {
      bias_gradient(hidden());
    }
  }
  /// Adds the bias of a product's result, `width` wide, which costs a product nothing.
  void bias(double width) {
    if (!fused_.biases) {
      on_all_rows(OperationPass::kForward, DeviceOperation::kBias, width);
    }
  }
  /// Adds the gradient of such a bias, which comes with the weight's.
  void bias_gradient(double width) {
    on_all_rows(OperationPass::kWeightGradient,
                fused_.bias_gradients ? DeviceOperation::kBiasGradientEpilogue
                                      : DeviceOperation::kBiasGradient,
                width);
  }
  /// Adds norms of queries or keys, of `heads` heads on this rank.
  void norm_of_heads(double heads) {
    const double width = model_.kv_channels;
    if (model_.qk_layernorm_width == QkNormWidth::kAllHeads) {
      norm(rows_, heads * width);
    } else {
      norm(rows_ * heads, width);
    }
  }
  /// Adds a norm of this rank's part of queries or keys, `width` wide. Sums over whole rows come
  /// before it, in each pass.
  void split_norm(double width) {
    on_all_rows(OperationPass::kForward, DeviceOperation::kRowProducts, width);
    on_all_rows(OperationPass::kInputGradient, DeviceOperation::kRowProducts, width);
    norm(rows_, width);
  }
  /// Adds what is between the products for QKV and attention.
  void prepare_attention() {
    const double queries = share(model_.num_attention_heads);
    const double keys = key_heads_of_rank(model_, tp_);
    if (model_.add_bias_linear || model_.add_qkv_bias) {
      const double width = share(static_cast<double>(query_width(model_) + 2 * key_width(model_)));
      bias(width);
      bias_gradient(width);
    }
    if (splits_key_heads(model_, tp_)) {
      share_key_heads();
    }
    if (splits_norms(model_, tp_)) {
      split_norm(share(static_cast<double>(query_width(model_))));
      split_norm(share(static_cast<double>(key_width(model_))));
    } else if (model_.qk_layernorm) {
      norm_of_heads(queries);
      norm_of_heads(keys);
    }
    if (const int width = rotary_width(model_); width > 0) {
      for (const OperationPass pass : {OperationPass::kForward, OperationPass::kInputGradient}) {
        // Shared keys lie apart from queries, except behind norms of what is shared. Gradients lie
        // as keys do before norms.
        const bool is_behind_norm =
            pass == OperationPass::kForward && model_.qk_layernorm && !splits_norms(model_, tp_);
        if (splits_key_heads(model_, tp_) && !is_behind_norm) {
          add(pass, DeviceOperation::kRotary, rows_ * queries, width);
          add(pass, DeviceOperation::kRotary, rows_ * keys, width);
        } else {
          add(pass, DeviceOperation::kRotary, rows_ * (queries + keys), width);
        }
      }
    }
  }
  /// Adds the copies around a gathering of keys and values, whose heads ranks share, and around the
  /// sum of their gradients.
  void share_key_heads() {
    const double part = share(static_cast<double>(key_width(model_)));
    const int sharers = tp_ / model_.num_query_groups;
    on_all_rows(OperationPass::kInputGradient, DeviceOperation::kFill,
                2.0 * static_cast<double>(key_width(model_)));
    for (const OperationPass pass : {OperationPass::kForward, OperationPass::kInputGradient}) {
      // Keys that are normed before they are gathered need no copy of their own.
      on_all_rows(pass, DeviceOperation::kCopy, (splits_norms(model_, tp_) ? 1.0 : 2.0) * part);
      for (int copy = 0; copy < 2 * sharers; ++copy) {
        on_all_rows(pass, DeviceOperation::kCopy, part);
      }
    }
  }
  /// Whether products apply the activation: tanh-GELU without a gate, on rows as cuBLASLt takes
  /// them (kernels/cuda/product_plan.cpp).
  [[nodiscard]] bool fuses_activation() const {
    return fused_.gelu && !model_.gated_linear_unit &&
           activation_of(model_) == Activation::kTanhGelu &&
           (model_.ffn_hidden_size / tp_) % 8 == 0;
  }
  /// Adds the activation of the MLP, with the bias of its first product.
  void activate(bool has_bias) {
    const double ffn = share(model_.ffn_hidden_size);
    if (fuses_activation()) {
      on_all_rows(OperationPass::kForward, DeviceOperation::kGeluEpilogue, ffn);
      on_all_rows(OperationPass::kInputGradient, DeviceOperation::kGeluEpilogue, ffn);
    } else if (model_.gated_linear_unit) {
      if (has_bias) {
        bias(share(static_cast<double>(mlp_up_width(model_))));
      }
      on_all_rows(OperationPass::kForward, DeviceOperation::kGatedActivation, ffn);
      on_all_rows(OperationPass::kInputGradient, DeviceOperation::kGatedActivationBackward, ffn);
    } else {
      on_all_rows(OperationPass::kForward, DeviceOperation::kBiasGelu, ffn);
      on_all_rows(OperationPass::kInputGradient, DeviceOperation::kGeluBackward, ffn);
    }
    if (has_bias) {
      bias_gradient(share(static_cast<double>(mlp_up_width(model_))));
    }
  }

  [[nodiscard]] std::vector<ElementWiseOperation> take() && { return std::move(list_); }

 private:
  [[nodiscard]] bool has_layer_norms() const {
    return model_.normalization == Normalization::kLayerNorm;
  }
  [[nodiscard]] DeviceOperation forward_norm() const {
    return has_layer_norms() ? DeviceOperation::kLayerNorm : DeviceOperation::kRmsNorm;
  }
  [[nodiscard]] DeviceOperation backward_norm() const {
    return has_layer_norms() ? DeviceOperation::kLayerNormBackward
                             : DeviceOperation::kRmsNormBackward;
  }
  [[nodiscard]] DeviceOperation backward_norm_with_bias() const {
    return has_layer_norms() ? DeviceOperation::kLayerNormBackwardBias
                             : DeviceOperation::kRmsNormBackwardBias;
  }
  /// Returns the operation of a sum with a residual and of its norm.
  [[nodiscard]] DeviceOperation sum_norm(bool drops) const {
    if (drops) {
      return has_layer_norms() ? DeviceOperation::kDropoutSumLayerNorm
                               : DeviceOperation::kDropoutSumRmsNorm;
    }
    return has_layer_norms() ? DeviceOperation::kSumLayerNorm : DeviceOperation::kSumRmsNorm;
  }

  const TransformerConfig& model_;
  FusedEpilogues fused_;
  int tp_;
  double rows_;
  double own_rows_;
  bool copies_own_rows_;
  bool waits_;  ///< Whether weight gradients wait for a pass of their own.
  std::vector<ElementWiseOperation> list_;
};

}  // namespace

FusedEpilogues fused_epilogues(const StackSpec& stack) {
  return {.biases = stack.fused_epilogues,
          .bias_gradients = stack.fused_epilogues && stack.fused_bias_gradients,
          .gelu = stack.fused_epilogues && element_bytes(stack.precision) == 2};
}

bool is_epilogue(DeviceOperation operation) {
  return operation == DeviceOperation::kGeluEpilogue ||
         operation == DeviceOperation::kBiasGradientEpilogue;
}

OperationSizes element_wise_sizes(DeviceOperation operation, double rows, double width) {
  return is_flat(operation) ? OperationSizes{1.0, rows * width, 1.0}
                            : OperationSizes{rows, width, 1.0};
}

std::vector<ElementWiseOperation> layer_operations(const TransformerConfig& model,
                                                   const ParallelConfig& config,
                                                   const FusedEpilogues& fused) {
  const bool has_projection_bias = model.add_bias_linear || model.add_projection_bias;
  const bool has_mlp_bias = model.add_bias_linear || model.add_mlp_bias;
  Operations run(model, config, fused);
  run.enter_branch(/*is_normed=*/false, has_projection_bias);
  run.prepare_attention();
  run.leave_branch(has_projection_bias, run.norms_middle());
  run.enter_second_branch(has_mlp_bias);
  run.activate(has_mlp_bias);
  run.leave_branch(has_mlp_bias, /*norms_sum=*/false);
  run.keep_gradient();
  return std::move(run).take();
}

std::vector<ElementWiseOperation> embedding_operations(const TransformerConfig& model,
                                                       const ParallelConfig& config) {
  Operations run(model, config);
  run.on_all_rows(OperationPass::kForward, DeviceOperation::kEmbedding, run.hidden());
  run.copy(OperationPass::kForward);
  run.copy(OperationPass::kWeightGradient);
  if (model.embedding_multiplier != 1.0) {
    run.on_own_rows(OperationPass::kForward, DeviceOperation::kScale);
    run.on_all_rows(OperationPass::kWeightGradient, DeviceOperation::kScale, run.hidden());
  }
  if (model.position_embedding == PositionEmbedding::kLearned) {
    run.on_own_rows(OperationPass::kForward, DeviceOperation::kPositions);
    run.on_all_rows(OperationPass::kWeightGradient, DeviceOperation::kPositionGradient,
                    run.hidden());
  }
  if (model.embedding_layernorm) {
    run.norm_of_own_rows();
  }
  if (dropout_rates(model).embedding > 0.0) {
    run.on_own_rows(OperationPass::kForward, sum_with(false, false, true));
    run.on_own_rows(OperationPass::kInputGradient, DeviceOperation::kDropoutBackward);
  }
  run.on_all_rows(OperationPass::kWeightGradient, DeviceOperation::kEmbeddingGradient,
                  run.hidden());
  return std::move(run).take();
}

std::vector<ElementWiseOperation> logits_operations(const TransformerConfig& model,
                                                    const ParallelConfig& config) {
  Operations run(model, config);
  const double width = static_cast<double>(padded_vocab_size(model, config.tp)) / config.tp;
  run.norm_of_own_rows();
  if (model.logits_multiplier != 1.0) {
    run.on_all_rows(OperationPass::kForward, DeviceOperation::kScale, width);
  }
  if (model.final_logit_softcapping > 0.0) {
    run.on_all_rows(OperationPass::kForward, DeviceOperation::kSoftCap, width);
  }
  run.on_all_rows(OperationPass::kForward, DeviceOperation::kCrossEntropy, width);
  run.on_all_rows(OperationPass::kInputGradient, DeviceOperation::kCrossEntropyBackward, width);
  run.on_own_rows(OperationPass::kInputGradient, DeviceOperation::kFill);
  return std::move(run).take();
}

}  // namespace ptdp
