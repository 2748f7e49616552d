#include "cost_model/analytic/memory_bound.h"

namespace ptdp {

LayerTraffic layer_traffic(const TransformerConfig& model, int micro_batch_size, int tp,
                           bool is_sequence_parallel) {
  const double s = model.seq_length;
  const Bytes activations(2.0 * micro_batch_size * s * model.hidden_size);
  const Bytes shard = activations / tp;
  const Bytes norms = is_sequence_parallel ? shard : activations;
  const Bytes scores(2.0 * micro_batch_size * (1.0 * model.num_attention_heads / tp) * s * s);
  return {.forward = 11.0 * norms + 16.0 * shard,
          .backward = 23.0 * norms + 27.0 * shard,
          .attention_forward = 4.5 * scores,
          .attention_backward = 5.5 * scores};
}

Bytes loss_traffic(double tokens, double vocabulary) {
  return Bytes(52.0 * tokens * vocabulary);
}

Seconds memory_bound_time(Bytes traffic, const GpuSpec& gpu) {
  return traffic / BytesPerSecond(gpu.memory_bandwidth.value() * gpu.memory_efficiency);
}

}  // namespace ptdp
