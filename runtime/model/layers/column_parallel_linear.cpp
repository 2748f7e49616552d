#include "runtime/model/layers/column_parallel_linear.h"

#include <cassert>

#include "runtime/model/layers/sequence_parallel.h"

namespace ptdp {
namespace {

/// Declares this rank's blocks of rows of the weights, and returns the products with all of them.
Linear declare_rows(const LayerContext& context, const std::vector<LinearOutputs>& outputs) {
  const std::int64_t inputs = context.hidden_size();
  StoredParameter weights;
  std::int64_t all = 0;
  for (const LinearOutputs& part : outputs) {
    assert(part.count % context.tp() == 0);
    const std::int64_t own = part.count / context.tp();
    weights.append(context.declare({.name = part.name + ".weight",
                                    .block = {.first_row = context.tensor_rank() * own,
                                              .rows = own,
                                              .columns = inputs,
                                              .total_columns = inputs},
                                    .total_rows = part.count,
                                    .decays = true,
                                    .deviation = context.model().init_method_std}));
    all += own;
  }
  return {context, weights, inputs, all};
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const LayerContext& context,
                                           const std::vector<LinearOutputs>& outputs, bool has_bias)
    : context_(context), linear_(declare_rows(context, outputs)) {
  if (!has_bias) {
    return;
  }
  for (const LinearOutputs& part : outputs) {
    const std::int64_t own = part.count / context.tp();
    bias_.append(context.declare({.name = part.name + ".bias",
                                  .block = {.first_column = context.tensor_rank() * own,
                                            .rows = 1,
                                            .columns = own,
                                            .total_columns = part.count},
                                  .total_rows = 1}));
  }
}

Tensor ColumnParallelLinear::forward(Buffer input) const {
  const AllRows rows(context_, input);
  Tensor output = context_.tensor(context_.rows() * linear_.outputs());
  linear_.forward(rows, bias(), output);
  return output;
}

Tensor ColumnParallelLinear::forward_activated(Buffer input, ActivationKind kind,
                                               Tensor& activation_input) const {
  const AllRows rows(context_, input);
  activation_input = context_.tensor(context_.rows() * linear_.outputs());
  Tensor output = context_.tensor(context_.rows() * linear_.outputs());
  linear_.forward_activated(rows, bias(), kind, activation_input, output);
  return output;
}

Buffer ColumnParallelLinear::bias() const {
  return bias_.exists() ? bias_.weights() : Buffer{};
}

Tensor ColumnParallelLinear::input_gradient(Buffer dy) const {
  Tensor gradient = context_.tensor(context_.rows() * linear_.inputs());
  linear_.input_gradient(dy, gradient);
  sum_rows(context_, gradient);
  return gradient;
}

void ColumnParallelLinear::weight_gradient(Buffer input, Buffer dy) const {
  const AllRows rows(context_, input);
  add_weight_gradient(rows, dy);
}

void ColumnParallelLinear::add_weight_gradient(Buffer rows, Buffer dy) const {
  linear_.weight_gradient(rows, dy, bias_.exists() ? bias_.gradient() : Buffer{});
}

Tensor ColumnParallelLinear::gradients(Tensor input, Tensor dy) const {
  if (!context_.overlaps_tensor()) {
    weight_gradient(input, dy);
    input.reset();
    return input_gradient(dy);
  }
  const AllRows rows = AllRows::begin(context_, input);
  if (context_.scatters_sequence()) {
    input.reset();
  }
  Tensor gradient = context_.tensor(context_.rows() * linear_.inputs());
  linear_.input_gradient(dy, gradient);
  rows.wait(context_);
  const Request sum = begin_sum_rows(context_, gradient);
  add_weight_gradient(rows, dy);
  context_.tensor_group().wait(sum);
  return gradient;
}

}  // namespace ptdp
