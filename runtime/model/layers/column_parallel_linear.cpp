#include "runtime/model/layers/column_parallel_linear.h"

#include <cassert>

#include "runtime/model/layers/sequence_parallel.h"

namespace ptdp {
namespace {

/// Declares this rank's block of rows of the weight, and returns the products with it.
Linear declare_rows(const LayerContext& context, const std::string& name, std::int64_t outputs) {
  assert(outputs % context.tp() == 0);
  const std::int64_t inputs = context.hidden_size();
  const std::int64_t own = outputs / context.tp();
  const StoredParameter weight =
      context.declare({.name = name + ".weight",
                       .block = {.first_row = context.tensor_rank() * own,
                                 .rows = own,
                                 .columns = inputs,
                                 .total_columns = inputs},
                       .total_rows = outputs,
                       .decays = true,
                       .deviation = context.model().init_method_std});
  return {context, weight, inputs, own};
}

}  // namespace

ColumnParallelLinear::ColumnParallelLinear(const LayerContext& context, const std::string& name,
                                           std::int64_t outputs)
    : context_(context), linear_(declare_rows(context, name, outputs)) {
  if (context.model().add_bias_linear) {
    const std::int64_t own = linear_.outputs();
    bias_ = context.declare({.name = name + ".bias",
                             .block = {.first_column = context.tensor_rank() * own,
                                       .rows = 1,
                                       .columns = own,
                                       .total_columns = outputs},
                             .total_rows = 1});
  }
}

Tensor ColumnParallelLinear::forward(Buffer input) const {
  const AllRows rows(context_, input);
  Tensor output = context_.tensor(context_.rows() * linear_.outputs());
  linear_.forward(rows, output);
  return output;
}

Buffer ColumnParallelLinear::bias() const {
  return bias_.store == nullptr ? Buffer{} : bias_.weights();
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
  linear_.weight_gradient(rows, dy);
  if (bias_.store != nullptr) {
    context_.backend().bias_gradient(dy, bias_.gradient(), context_.rows());
  }
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
