#include "runtime/model/layers/transformer_block.h"

#include <cassert>
#include <utility>

#include "runtime/model/layers/sequence_parallel.h"

namespace ptdp {
namespace {

std::string name_of_layer(int layer) {
  return "layers." + std::to_string(layer);
}

std::optional<Norm> norm_before(const LayerContext& context, const std::string& name) {
  return context.model().norm_placement == NormPlacement::kBehind
             ? std::nullopt
             : std::optional<Norm>(std::in_place, context, name);
}

std::optional<Norm> norm_behind(const LayerContext& context, const std::string& name) {
  return context.model().norm_placement == NormPlacement::kBefore
             ? std::nullopt
             : std::optional<Norm>(std::in_place, context, name);
}

}  // namespace

TransformerBlock::TransformerBlock(const LayerContext& context, int layer)
    : context_(context),
      norm1_(norm_before(context, name_of_layer(layer) + ".ln1")),
      attention_(context, layer, name_of_layer(layer) + ".attention"),
      behind1_(norm_behind(context, name_of_layer(layer) + ".ln1_behind")),
      norm2_(norm_before(context, name_of_layer(layer) + ".ln2")),
      mlp_(context, layer, name_of_layer(layer) + ".mlp"),
      behind2_(norm_behind(context, name_of_layer(layer) + ".ln2_behind")) {}

Buffer TransformerBlock::enter(const std::optional<Norm>& norm, Tensor& x, Tensor& normed,
                               NormStatistics& statistics) const {
  if (!norm) {
    normed = std::move(x);
    return normed;
  }
  normed = context_.tensor(x.buffer().size);
  statistics = norm->forward(x, normed);
  return x;
}

Tensor TransformerBlock::leave(const Norm& norm, Tensor branch, Buffer x,
                               NormBehindActivations& behind, const NormOfSum& next) const {
  behind.branch = std::move(branch);
  Tensor sum = context_.tensor(x.size);
  behind.statistics = norm.forward(behind.branch, sum);
  sum_branch(context_,
             {.x = sum,
              .residual = x,
              .scale = context_.model().residual_multiplier,
              .y = sum,
              .rows = context_.own_rows()},
             next);
  return sum;
}

void TransformerBlock::compute_middle(const Microbatch& microbatch, Buffer x,
                                      BlockActivations& activations) const {
  NormedRows rows;
  const NormOfSum next = norm2_ ? NormOfSum{&*norm2_, &rows} : NormOfSum{};
  if (behind1_) {
    Tensor branch = attention_.forward(microbatch, {}, activations.attention, {});
    activations.middle = leave(*behind1_, std::move(branch), x, activations.behind1, next);
  } else {
    activations.middle = attention_.forward(microbatch, x, activations.attention, next);
  }
  if (norm2_) {
    activations.mlp.normed = std::move(rows.normed);
    activations.statistics2 = std::move(rows.statistics);
  } else {
    activations.mlp.normed = std::move(activations.middle);
  }
}

Tensor TransformerBlock::compute(const Microbatch& microbatch,
                                 BlockActivations& activations) const {
  const Buffer x =
      enter(norm1_, activations.input, activations.attention.normed, activations.statistics1);
  Tensor sum;  // of x and attention, where the MLP does not take it
  if (context_.model().parallel_residual) {
    sum = attention_.forward(microbatch, x, activations.attention, {});
  } else {
    compute_middle(microbatch, x, activations);
  }
  if (repeats(context_.settings().recompute) == Repeats::kModules) {
    activations.attention.output.reset();
    activations.attention.log_sum.reset();
  }
  if (context_.model().parallel_residual) {
    static_cast<void>(
        enter(norm2_, activations.input, activations.mlp.normed, activations.statistics2));
    return mlp_.forward(microbatch, sum, activations.mlp);
  }
  const Buffer middle = norm2_ ? activations.middle : activations.mlp.normed;
  Tensor output = mlp_.forward(microbatch, behind2_ ? Buffer{} : middle, activations.mlp);
  return behind2_ ? leave(*behind2_, std::move(output), middle, activations.behind2)
                  : std::move(output);
}

Tensor TransformerBlock::forward(const Microbatch& microbatch, Tensor input,
                                 BlockActivations& activations) const {
  activations.input = std::move(input);
  Tensor output = compute(microbatch, activations);
  if (repeats(context_.settings().recompute) == Repeats::kLayer) {
    Tensor x = std::move(norm1_ ? activations.input : activations.attention.normed);
    activations = {};
    activations.input = std::move(x);
  }
  return output;
}

Tensor TransformerBlock::leave_backward(const std::optional<Norm>& norm, Buffer gradient,
                                        NormBehindActivations& behind) const {
  if (!norm) {
    return {};
  }
  const Buffer x = behind.branch;
  Tensor branch_gradient = context_.tensor(gradient.size);
  if (const double factor = context_.model().residual_multiplier; factor != 1.0) {
    context_.backend().dropout_backward(gradient, {}, factor, {}, branch_gradient,
                                        context_.own_rows());
    gradient = branch_gradient;
    std::swap(behind.branch, branch_gradient);  // The gradient of x will replace x.
  }
  norm->backward(gradient, x, behind.statistics, branch_gradient, /*added=*/{});
  behind = {};
  return branch_gradient;
}

void TransformerBlock::norm_backward(const Norm& norm, Buffer normed_gradient, Buffer x,
                                     NormStatistics statistics,
                                     const PassedGradient& passed) const {
  const Buffer own = own_rows(context_, normed_gradient);
  if (passed.kept == nullptr) {
    norm.backward(own, x, statistics, passed.gradient, passed.gradient, passed.sum);
    return;
  }
  Tensor after = context_.tensor(passed.gradient.buffer().size);
  norm.backward(own, x, statistics, after, passed.gradient, passed.sum);
  *passed.kept = std::exchange(passed.gradient, std::move(after));
}

void TransformerBlock::enter_backward(const std::optional<Norm>& norm, Buffer normed_gradient,
                                      Tensor x, NormStatistics statistics,
                                      const PassedGradient& passed) const {
  if (norm) {
    norm_backward(*norm, normed_gradient, x, std::move(statistics), passed);
  } else {
    context_.backend().add(own_rows(context_, normed_gradient), passed.gradient);
  }
}

void TransformerBlock::recompute_core(const Microbatch& microbatch,
                                      AttentionActivations& activations) const {
  if (repeats(context_.settings().recompute) == Repeats::kModules) {
    attention_.recompute_core(microbatch, activations);
  }
}

void TransformerBlock::backward(const Microbatch& microbatch, Tensor& gradient,
                                WeightGradients when, BlockActivations& activations) const {
  if (repeats(context_.settings().recompute) == Repeats::kLayer) {
    // Recomputes the layer up to its unused output, as Megatron-LM does, since its collectives are
    // counted.
    static_cast<void>(compute(microbatch, activations));
  }
  if (context_.model().parallel_residual) {
    backward_parallel(microbatch, gradient, when, activations);
    return;
  }
  Tensor branch = leave_backward(behind2_, gradient, activations.behind2);
  Tensor normed =
      mlp_.backward(microbatch, branch.empty() ? gradient : branch, when, activations.mlp);
  Tensor* kept = keep(when, branch, activations.mlp.output_gradient);
  enter_backward(norm2_, normed, std::move(activations.middle), std::move(activations.statistics2),
                 {gradient, kept, mlp_.bias_gradient_of_norm()});
  normed.reset();
  recompute_core(microbatch, activations.attention);
  branch = leave_backward(behind1_, gradient, activations.behind1);
  normed = attention_.backward(microbatch, branch.empty() ? gradient : branch, when,
                               activations.attention);
  kept = keep(when, branch, activations.attention.output_gradient);
  enter_backward(norm1_, normed, std::move(activations.input), std::move(activations.statistics1),
                 {gradient, kept, attention_.bias_gradient_of_norm()});
}

Tensor* TransformerBlock::keep(WeightGradients when, Tensor& branch, Tensor& output_gradient) {
  if (when == WeightGradients::kAtOnce || !output_gradient.empty()) {
    branch.reset();
    return nullptr;
  }
  const bool is_of_sum = branch.empty();
  output_gradient = std::move(branch);
  return is_of_sum ? &output_gradient : nullptr;
}

void TransformerBlock::backward_parallel(const Microbatch& microbatch, Tensor& gradient,
                                         WeightGradients when,
                                         BlockActivations& activations) const {
  const Tensor of_mlp = mlp_.backward(microbatch, gradient, when, activations.mlp);
  // Both branches keep the same gradient, or have one each of their own.
  const bool keeps = when == WeightGradients::kLater && activations.mlp.output_gradient.empty();
  if (keeps) {
    activations.mlp.output_gradient = context_.tensor(gradient.buffer().size);
    context_.backend().copy(gradient, activations.mlp.output_gradient);
  }
  recompute_core(microbatch, activations.attention);
  const Tensor of_attention =
      attention_.backward(microbatch, gradient, when, activations.attention);
  norm_backward(*norm2_, of_mlp, activations.input, std::move(activations.statistics2),
                {gradient, keeps ? &activations.attention.output_gradient : nullptr});
  norm_backward(*norm1_, of_attention, activations.input, std::move(activations.statistics1),
                {gradient});
  activations.input.reset();
}

void TransformerBlock::weight_gradients(BlockActivations& activations) const {
  mlp_.weight_gradients(activations.mlp);
  attention_.weight_gradients(activations.attention);
}

}  // namespace ptdp
