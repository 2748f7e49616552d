#include "cost_model/operations/memory_bound.h"

#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {

LayerTraffic layer_traffic(const TransformerConfig& model, int micro_batch_size, int tp,
                           bool is_sequence_parallel, const StackSpec& stack) {
  const int bytes = element_bytes(stack.precision);
  const double s = model.seq_length;
  const double per_width = 1.0 * bytes * micro_batch_size * s;  // bytes of a pass over one feature
  const Bytes norms(per_width * model.hidden_size / (is_sequence_parallel ? tp : 1));
  const bool is_latent = has_latent_attention(model);
  const Bytes queries(per_width * static_cast<double>(query_width(model)) / tp);
  const Bytes context(per_width * static_cast<double>(context_width(model)) / tp);
  const Bytes keys =
      is_latent ? queries : Bytes(per_width * static_cast<double>(key_width_of_rank(model, tp)));
  const Bytes values = is_latent ? context : keys;
  const Bytes mlp(per_width * model.ffn_hidden_size / tp);
  const Bytes scores(1.0 * bytes * micro_batch_size * (1.0 * model.num_attention_heads / tp) * s *
                     s);
  const Bytes all_heads = queries + keys + values;
  const Bytes rotary =
      model.position_embedding == PositionEmbedding::kRope ? 2.0 * (queries + keys) : Bytes(0.0);

  const bool drops = has_dropout(model);
  const bool is_composed = stack.composed_norms && model.normalization == Normalization::kRmsNorm;
  const double norm_forward = is_composed ? 18.0 : 2.0;
  const double norm_backward = is_composed ? 46.0 : 5.0;
  const double num_norms = norms_of_layer(model);
  LayerTraffic traffic{
      .forward = ((drops ? 7.0 : 6.0) + num_norms * norm_forward) * norms + rotary + 2.0 * context +
                 (model.gated_linear_unit ? 3.0 : 2.0) * mlp,
      .backward = ((drops ? 13.0 : 6.0) + num_norms * norm_backward) * norms + 2.0 * all_heads +
                  rotary + 2.0 * context + (model.gated_linear_unit ? 5.0 : 4.0) * mlp,
      .attention_forward = (drops ? 4.5 : 2.0) * scores,
      .attention_backward = (drops ? 5.5 : 3.0) * scores};
  if (model.add_bias_linear || model.add_qkv_bias) {
    traffic.forward += 2.0 * all_heads;
    traffic.backward += all_heads;
  }
  if (model.qk_layernorm) {
    traffic.forward += norm_forward * (queries + keys);
    traffic.backward += norm_backward * (queries + keys);
  }
  if (is_latent) {
    const Bytes compressed(per_width * (model.q_lora_rank + model.kv_lora_rank) /
                           (is_sequence_parallel ? tp : 1));
    traffic.forward += norm_forward * compressed;
    traffic.backward += norm_backward * compressed;
  }
  if (!stack.fused_element_wise) {
    // Rotary positions in fp32 take 10 passes for 2.
    traffic.forward +=
        (drops || model.add_bias_linear ? 8.0 : 0.0) * norms + 4.0 * rotary + 2.0 * mlp;
    traffic.backward += 4.0 * rotary + (model.gated_linear_unit ? 4.0 : 0.0) * mlp;
    traffic.attention_forward += 16.0 * scores;
    traffic.attention_backward += 17.0 * scores;
  }
  if (stack.deterministic) {
    const Bytes whole = is_sequence_parallel ? 4.0 * tp * norms : Bytes(0.0);
    const Bytes of_both = 4.0 * norms + whole + all_heads + context;
    traffic.forward += of_both + (model.gated_linear_unit ? 2.0 : 1.0) * mlp;
    traffic.backward += of_both + mlp;
  }
  return traffic;
}

Seconds memory_bound_time(Bytes traffic, const GpuSpec& gpu) {
  return traffic / BytesPerSecond(gpu.memory_bandwidth.value() * gpu.memory_efficiency);
}

}  // namespace ptdp
