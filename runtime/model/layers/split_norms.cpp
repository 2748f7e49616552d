#include "runtime/model/layers/split_norms.h"

#include <cassert>

namespace ptdp {
namespace {

/// Returns what is added to stored weights.
double offset_of_gamma(const LayerContext& context) {
  return context.model().layernorm_zero_centered_gamma ? 1.0 : 0.0;
}

}  // namespace

SplitNorms::SplitNorms(const LayerContext& context, const std::string& name)
    : context_(context),
      queries_(declare(name + ".query_norm", query_width(context.model()))),
      keys_(declare(name + ".key_norm", key_width(context.model()))) {
  assert(context.model().normalization == Normalization::kRmsNorm);
}

SplitNorms::Norm SplitNorms::declare(const std::string& name, std::int64_t whole_width) const {
  assert(whole_width % context_.tp() == 0);
  const std::int64_t own = whole_width / context_.tp();
  return {.gamma = context_.declare({.name = name + ".gamma",
                                     .block = {.first_column = context_.tensor_rank() * own,
                                               .rows = 1,
                                               .columns = own,
                                               .total_columns = whole_width},
                                     .total_rows = 1,
                                     .constant = 1.0 - offset_of_gamma(context_)}),
          .whole_width = whole_width};
}

Buffer SplitNorms::half(const Tensor& sums, int which) const {
  return sums.buffer().slice(which * context_.rows(), context_.rows());
}

Tensor SplitNorms::squares(const Vectors& x) const {
  Tensor sums = context_.accumulator(2 * context_.rows());
  const auto square = [&](const Norm& norm, const VectorRows& rows, int which) {
    context_.backend().row_products({.a = rows,
                                     .b = rows,
                                     .sums = half(sums, which),
                                     .width = norm.whole_width / context_.tp(),
                                     .rows = context_.rows()});
  };
  square(queries_, x.queries, 0);
  square(keys_, x.keys, 1);
  context_.tensor_group().all_reduce(sums, Reduction::kSum);
  return sums;
}

Tensor SplitNorms::forward(const Norm& norm, const VectorRows& x, Buffer squares,
                           const VectorRows& y) const {
  Tensor rstd = context_.accumulator(context_.rows());
  context_.backend().split_norm({.x = x,
                                 .gamma = norm.gamma.weights(),
                                 .gamma_offset = offset_of_gamma(context_),
                                 .epsilon = context_.model().layernorm_epsilon,
                                 .squares = squares,
                                 .whole_width = norm.whole_width,
                                 .y = y,
                                 .rstd = rstd,
                                 .rows = context_.rows()});
  return rstd;
}

Tensor SplitNorms::norm_queries(const VectorRows& x, const Tensor& squares,
                                const VectorRows& y) const {
  return forward(queries_, x, half(squares, 0), y);
}

Tensor SplitNorms::norm_keys(const VectorRows& x, const Tensor& squares,
                             const VectorRows& y) const {
  return forward(keys_, x, half(squares, 1), y);
}

void SplitNorms::write_products(const Norm& norm, const VectorRows& dy, const VectorRows& x,
                                Buffer products) const {
  context_.backend().row_products({.a = dy,
                                   .b = x,
                                   .weights = norm.gamma.weights(),
                                   .weights_offset = offset_of_gamma(context_),
                                   .sums = products,
                                   .width = norm.whole_width / context_.tp(),
                                   .rows = context_.rows()});
}

void SplitNorms::backward(const Norm& norm, const VectorRows& dy, const VectorRows& x, Buffer rstd,
                          Buffer products, const VectorRows& dx) const {
  context_.backend().split_norm_backward({.dy = dy,
                                          .x = x,
                                          .rstd = rstd,
                                          .gamma = norm.gamma.weights(),
                                          .gamma_offset = offset_of_gamma(context_),
                                          .products = products,
                                          .whole_width = norm.whole_width,
                                          .dx = dx,
                                          .dgamma = norm.gamma.gradient(),
                                          .rows = context_.rows()});
}

void SplitNorms::backward(const Vectors& dy, const Vectors& x, const Statistics& rstd,
                          const Vectors& dx) const {
  const Tensor products = context_.accumulator(2 * context_.rows());
  write_products(queries_, dy.queries, x.queries, half(products, 0));
  write_products(keys_, dy.keys, x.keys, half(products, 1));
  context_.tensor_group().all_reduce(products, Reduction::kSum);
  backward(queries_, dy.queries, x.queries, rstd.queries, half(products, 0), dx.queries);
  backward(keys_, dy.keys, x.keys, rstd.keys, half(products, 1), dx.keys);
}

}  // namespace ptdp
