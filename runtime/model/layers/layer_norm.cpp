#include "runtime/model/layers/layer_norm.h"

namespace ptdp {

LayerNorm::LayerNorm(const LayerContext& context, const std::string& name)
    : context_(context),
      gamma_(context.declare_replicated(name + ".gamma", context.hidden_size(), 1.0)),
      beta_(context.declare_replicated(name + ".beta", context.hidden_size(), 0.0)) {}

NormStatistics LayerNorm::forward(Buffer x, Buffer y) const {
  const std::int64_t rows = context_.own_rows();
  NormStatistics statistics = {.mean = context_.accumulator(rows),
                               .rstd = context_.accumulator(rows)};
  context_.backend().layer_norm(x, gamma_.weights(), beta_.weights(),
                                context_.model().layernorm_epsilon, y, statistics.mean,
                                statistics.rstd, rows);
  return statistics;
}

void LayerNorm::backward(Buffer dy, Buffer x, const NormStatistics& statistics, Buffer dx) const {
  context_.backend().layer_norm_backward(dy, x, statistics.mean, statistics.rstd, gamma_.weights(),
                                         dx, gamma_.gradient(), beta_.gradient(),
                                         context_.own_rows());
}

}  // namespace ptdp
