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
  context_.backend().layer_norm({.x = x,
                                 .gamma = gamma_.weights(),
                                 .beta = beta_.weights(),
                                 .epsilon = context_.model().layernorm_epsilon,
                                 .y = y,
                                 .mean = statistics.mean,
                                 .rstd = statistics.rstd,
                                 .rows = rows});
  return statistics;
}

void LayerNorm::backward(Buffer dy, Buffer x, const NormStatistics& statistics, Buffer dx) const {
  context_.backend().layer_norm_backward({.dy = dy,
                                          .x = x,
                                          .mean = statistics.mean,
                                          .rstd = statistics.rstd,
                                          .gamma = gamma_.weights(),
                                          .dx = dx,
                                          .dgamma = gamma_.gradient(),
                                          .dbeta = beta_.gradient(),
                                          .rows = context_.own_rows()});
}

}  // namespace ptdp
