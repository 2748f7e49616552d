#include "runtime/model/layers/row_parallel_linear.h"

#include <cassert>
#include <cmath>

#include "runtime/model/layers/sequence_parallel.h"

namespace ptdp {
namespace {

/// Declares this rank's block of columns of the weight, and returns the products with it.
Linear declare_columns(const LayerContext& context, const std::string& name, std::int64_t inputs) {
  assert(inputs % context.tp() == 0);
  const std::int64_t outputs = context.hidden_size();
  const std::int64_t own = inputs / context.tp();
  const StoredParameter weight = context.declare(
      {.name = name + ".weight",
       .block = {.first_column = context.tensor_rank() * own,
                 .rows = outputs,
                 .columns = own,
                 .total_columns = inputs},
       .total_rows = outputs,
       .decays = true,
       // Each of l layers ends two branches: with 1/√(2l) their sum keeps the variance of one.
       .deviation = context.model().init_method_std / std::sqrt(2.0 * context.model().num_layers)});
  return {context, weight, own, outputs};
}

}  // namespace

RowParallelLinear::RowParallelLinear(const LayerContext& context, const std::string& name,
                                     std::int64_t inputs, bool has_bias)
    : context_(context),
      linear_(declare_columns(context, name, inputs)),
      scale_(context.model().norm_placement == NormPlacement::kBefore
                 ? context.model().residual_multiplier
                 : 1.0) {
  if (has_bias) {
    bias_ =
        context.declare_replicated(name + ".bias", linear_.outputs(), 0.0, context.group_of_rows());
    norm_sums_bias_ = sums_biases_in_norms(context.model(), context.settings().dropout.hidden);
  }
}

Tensor RowParallelLinear::forward(Buffer input, Buffer residual, const Dropout& dropout,
                                  const TokenRange& range, const NormOfSum& next) const {
  Tensor sum = context_.tensor(context_.rows() * linear_.outputs());
  linear_.forward(input, /*bias=*/{}, sum);
  sum_rows(context_, sum);
  const Buffer rows = own_rows(context_, sum);
  const Buffer bias = bias_.exists() ? bias_.weights() : Buffer{};
  Tensor scattered;
  if (context_.scatters_sequence()) {
    scattered = context_.tensor(rows.size);
  } else if (bias.empty() && residual.empty() && dropout.probability == 0.0 && scale_ == 1.0) {
    return sum;
  }
  sum_branch(context_,
             {.x = rows,
              .bias = bias,
              .residual = residual,
              .dropout = dropout,
              .scale = scale_,
              .range = range,
              .y = scattered.empty() ? rows : scattered.buffer(),
              .rows = context_.own_rows()},
             next);
  return scattered.empty() ? std::move(sum) : std::move(scattered);
}

Tensor RowParallelLinear::output_gradient(Buffer dy, const Dropout& dropout,
                                          const TokenRange& range) const {
  if (dropout.probability == 0.0 && scale_ == 1.0 && !context_.scatters_sequence()) {
    return {};
  }
  Tensor gradient = context_.tensor(context_.rows() * linear_.outputs());
  context_.backend().dropout_backward(dy, dropout, scale_, range, own_rows(context_, gradient),
                                      context_.own_rows());
  gather_rows(context_, gradient);
  return gradient;
}

void RowParallelLinear::input_gradient(Buffer output_gradient, Buffer dx) const {
  linear_.input_gradient(output_gradient, dx);
}

void RowParallelLinear::activated_input_gradient(Buffer output_gradient, ActivationKind kind,
                                                 Buffer activation_input, Buffer dx) const {
  linear_.activated_input_gradient(output_gradient, kind, activation_input, dx);
}

void RowParallelLinear::weight_gradient(Buffer input, Buffer output_gradient) const {
  const Buffer gradient = bias_.exists() && !norm_sums_bias_ ? bias_.gradient() : Buffer{};
  // Ranks of a tensor group hold copies of the bias, which would drift apart if each chose a kernel
  // for its gradient by time. With sequence parallelism they sum those of their own rows.
  const bool is_apart = !gradient.empty() && context_.tp() > 1;
  linear_.weight_gradient(input, output_gradient, is_apart ? Buffer{} : gradient);
  if (is_apart) {
    context_.backend().bias_gradient(own_rows(context_, output_gradient), gradient,
                                     context_.own_rows());
  }
}

Buffer RowParallelLinear::bias_gradient_of_norm() const {
  return norm_sums_bias_ ? bias_.gradient() : Buffer{};
}

}  // namespace ptdp
