#include "cost_model/analytic/flops.h"

namespace ptdp {
namespace {

constexpr double kLogitPasses = 3.0;  // forward, input gradient, weight gradient

/// 2Bs·(l·(layer_passes·W + attention_passes·2s·Q) + 3Vh), the shape that all conventions share: W
/// weights of a layer's matrices, Q the width of its queries.
Flops convention(const TransformerConfig& model, std::int64_t global_batch_size,
                 double layer_passes, double attention_passes) {
  const auto batch = static_cast<double>(global_batch_size);
  const double s = model.seq_length;
  const double h = model.hidden_size;
  const auto queries = static_cast<double>(query_width(model));
  const double layer = layer_passes * layer_weights(model) + attention_passes * 2.0 * s * queries;
  return Flops(2.0 * batch * s * (model.num_layers * layer + kLogitPasses * model.vocab_size * h));
}

}  // namespace

Flops model_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 3.0, 3.0);
}

Flops sc21_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 4.0, 4.0);
}

Flops selective_recompute_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 3.0, 6.0);
}

Flops hardware_flops(const TransformerConfig& model, std::int64_t global_batch_size,
                     Recompute recompute) {
  switch (recompute) {
    case Recompute::kNone:
      return model_flops(model, global_batch_size);
    case Recompute::kSelective:
      return selective_recompute_flops(model, global_batch_size);
    case Recompute::kFull:
      return sc21_flops(model, global_batch_size);
  }
  return {};
}

double utilization(Flops flops, Seconds time, std::int64_t gpus, FlopsPerSecond peak) {
  return flops.value() / (time.value() * static_cast<double>(gpus) * peak.value());
}

Seconds sc21_training_time(double tokens, double parameters, std::int64_t gpus,
                           FlopsPerSecond achieved_per_gpu) {
  return Seconds(8.0 * tokens * parameters /
                 (static_cast<double>(gpus) * achieved_per_gpu.value()));
}

}  // namespace ptdp
