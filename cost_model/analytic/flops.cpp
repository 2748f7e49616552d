#include "cost_model/analytic/flops.h"

namespace ptdp {
namespace {

/// factor · Bslh² · (1 + s/(attention·h) + V/(logits·lh)), the shape that all conventions share.
Flops convention(const TransformerConfig& model, std::int64_t global_batch_size, double factor,
                 double attention, double logits) {
  const auto batch = static_cast<double>(global_batch_size);
  const double s = model.seq_length;
  const double l = model.num_layers;
  const double h = model.hidden_size;
  const double vocab = model.vocab_size;
  return Flops(factor * batch * s * l * h * h *
               (1.0 + s / (attention * h) + vocab / (logits * l * h)));
}

}  // namespace

Flops model_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 72.0, 6.0, 12.0);
}

Flops sc21_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 96.0, 6.0, 16.0);
}

Flops selective_recompute_flops(const TransformerConfig& model, std::int64_t global_batch_size) {
  return convention(model, global_batch_size, 72.0, 3.0, 12.0);
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
