#include "runtime/model/layers/norm.h"

#include <cassert>

namespace ptdp {
namespace {

bool is_layer_norm(const LayerContext& context) {
  return context.model().normalization == Normalization::kLayerNorm;
}

/// Returns what is added to stored weights of a norm.
double gamma_offset(const LayerContext& context) {
  return context.model().layernorm_zero_centered_gamma ? 1.0 : 0.0;
}

}  // namespace

Norm::Norm(const LayerContext& context, const std::string& name)
    : context_(context), is_of_heads_(false), width_(context.hidden_size()), vectors_(1) {
  declare(name, context.group_of_rows());
}

Norm::Norm(const LayerContext& context, const std::string& name, int heads)
    : context_(context), is_of_heads_(true) {
  const bool is_of_each = context.model().qk_layernorm_width == QkNormWidth::kHead;
  width_ = std::int64_t{1} * (is_of_each ? 1 : heads) * context.model().kv_channels;
  vectors_ = is_of_each ? heads : 1;
  // Every rank's gradient is the sum over its heads.
  declare(name, context.tp() > 1 ? GradientGroup::kSummedOverTensor : GradientGroup::kOwn);
}

void Norm::declare(const std::string& name, GradientGroup group) {
  gamma_ =
      context_.declare_replicated(name + ".gamma", width_, 1.0 - gamma_offset(context_), group);
  if (is_layer_norm(context_)) {
    beta_ = context_.declare_replicated(name + ".beta", width_, 0.0, group);
  }
}

std::int64_t Norm::rows() const {
  return is_of_heads_ ? context_.rows() : context_.own_rows();
}

NormStatistics Norm::statistics() const {
  NormStatistics statistics;
  if (is_layer_norm(context_)) {
    statistics.mean = context_.accumulator(rows() * vectors_);
  }
  statistics.rstd = context_.accumulator(rows() * vectors_);
  return statistics;
}

NormCall Norm::call(const VectorRows& x, const VectorRows& y,
                    const NormStatistics& statistics) const {
  return {.x = x,
          .gamma = gamma_.weights(),
          .gamma_offset = gamma_offset(context_),
          .beta = beta_.exists() ? beta_.weights() : Buffer{},
          .epsilon = context_.model().layernorm_epsilon,
          .y = y,
          .mean = statistics.mean,
          .rstd = statistics.rstd,
          .rows = rows(),
          .vectors = vectors_};
}

NormStatistics Norm::forward(const VectorRows& x, const VectorRows& y) const {
  NormStatistics of_x = statistics();
  context_.backend().norm(call(x, y, of_x));
  return of_x;
}

NormStatistics Norm::forward(Buffer x, Buffer y) const {
  return forward(row_by_row(x), row_by_row(y));
}

NormedRows Norm::forward_of_sum(const BiasDropoutAddCall& sum) const {
  assert(!is_of_heads_ && sum.y.size == rows() * width_);
  NormedRows rows{.normed = context_.tensor(sum.y.size), .statistics = statistics()};
  context_.backend().sum_and_norm(
      sum, call(row_by_row(sum.y), row_by_row(rows.normed), rows.statistics));
  return rows;
}

void Norm::backward(const VectorRows& dy, const VectorRows& x, const NormStatistics& statistics,
                    const VectorRows& dx, Buffer added, Buffer added_sum) const {
  context_.backend().norm_backward({.dy = dy,
                                    .x = x,
                                    .mean = statistics.mean,
                                    .rstd = statistics.rstd,
                                    .gamma = gamma_.weights(),
                                    .gamma_offset = gamma_offset(context_),
                                    .dx = dx,
                                    .added = added,
                                    .dgamma = gamma_.gradient(),
                                    .dbeta = beta_.exists() ? beta_.gradient() : Buffer{},
                                    .added_sum = added_sum,
                                    .rows = rows(),
                                    .vectors = vectors_});
}

void Norm::backward(Buffer dy, Buffer x, const NormStatistics& statistics, Buffer dx, Buffer added,
                    Buffer added_sum) const {
  backward(row_by_row(dy), row_by_row(x), statistics, row_by_row(dx), added, added_sum);
}

void sum_branch(const LayerContext& context, const BiasDropoutAddCall& sum, const NormOfSum& next) {
  if (next.norm == nullptr) {
    context.backend().bias_dropout_add(sum);
  } else {
    *next.rows = next.norm->forward_of_sum(sum);
  }
}

}  // namespace ptdp
