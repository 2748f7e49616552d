#include "cost_model/operations/memory_bound.h"

#include "cost_model/inputs/rank_sizes.h"

namespace ptdp {
namespace {

constexpr double kLookUpShare = 0.2;  // of the memory's bandwidth

/// What one pass over each kind of tensor of a layer moves on a rank.
struct Passes {
  Bytes norms;
  Bytes queries;
  Bytes keys;
  Bytes all_heads;  ///< Queries, keys and values.
  Bytes context;
  Bytes mlp;
  Bytes scores;
  Bytes rotary;  ///< Queries and keys, read and written for their positions.
  /// The part of `rotary` that is turned: in latent attention a part of each query, and one part of
  /// a key for all heads.
  Bytes turned;
};

/// Adds what a stack that fuses nothing moves besides; rotary positions in fp32 take 10 passes for
/// 2.
void add_unfused(LayerTraffic& traffic, const Passes& passes, const TransformerConfig& model) {
  traffic.forward += (has_dropout(model) || model.add_bias_linear ? 8.0 : 0.0) * passes.norms +
                     4.0 * passes.rotary + 2.0 * passes.mlp;
  traffic.backward += 4.0 * passes.rotary + (model.gated_linear_unit ? 4.0 : 0.0) * passes.mlp;
  traffic.attention_forward += 16.0 * passes.scores;
  traffic.attention_backward += 17.0 * passes.scores;
}

/// Adds what a stack moves that fuses element-wise operations but these.
void add_single_operations(LayerTraffic& traffic, const Passes& passes,
                           const TransformerConfig& model, const StackSpec& stack) {
  if (stack.complex_rotary && stack.fused_element_wise) {
    traffic.forward += 4.0 * passes.turned;
    traffic.backward += 4.0 * passes.turned;
  }
  if (stack.copies_heads) {
    const bool is_grouped = model.num_query_groups != model.num_attention_heads;
    traffic.forward += 2.0 * passes.all_heads + 8.0 * passes.keys;
    traffic.backward += (is_grouped ? 0.0 : 2.0) * passes.all_heads + 4.0 * passes.keys;
  }
  if (stack.looks_up_tokens) {
    traffic.forward += passes.queries;
    traffic.backward += passes.all_heads;
    traffic.looked_up_forward = traffic.looked_up_backward =
        2.0 * (passes.all_heads + passes.queries);
  }
  if (stack.splits_gates && model.gated_linear_unit) {
    traffic.forward += 2.0 * passes.mlp;
    traffic.backward += 8.0 * passes.mlp;
  }
  if (applies_rotary_apart(model, stack)) {
    traffic.forward += 5.0 * passes.rotary;
    traffic.backward += 6.0 * passes.rotary;
  }
}

/// Adds what a deterministic stack fills; `whole` are results before they are scattered.
void add_filled(LayerTraffic& traffic, const Passes& passes, Bytes whole,
                const TransformerConfig& model) {
  const Bytes of_both = 4.0 * passes.norms + whole + passes.all_heads + passes.context;
  traffic.forward += of_both + (model.gated_linear_unit ? 2.0 : 1.0) * passes.mlp;
  traffic.backward += of_both + passes.mlp;
}

}  // namespace

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
  if (has_relative_positions(model)) {
    traffic.attention_forward += 5.0 * scores + 4.0 * queries;
    traffic.attention_backward += 3.0 * scores + 5.0 * queries;
  }
  if (is_latent) {
    const Bytes compressed(per_width * (model.q_lora_rank + model.kv_lora_rank) /
                           (is_sequence_parallel ? tp : 1));
    traffic.forward += norm_forward * compressed;
    traffic.backward += norm_backward * compressed;
  }
  const Bytes turned = is_latent ? Bytes(2.0 * per_width * model.qk_pos_emb_head_dim *
                                         (1.0 * model.num_attention_heads / tp + 1.0))
                                 : rotary;
  const Passes passes{norms, queries, keys, all_heads, context, mlp, scores, rotary, turned};
  if (!stack.fused_element_wise) {
    add_unfused(traffic, passes, model);
  }
  add_single_operations(traffic, passes, model, stack);
  if (stack.deterministic) {
    add_filled(traffic, passes, is_sequence_parallel ? 4.0 * tp * norms : Bytes(0.0), model);
  }
  return traffic;
}

Seconds look_up_time(Bytes moved, const GpuSpec& gpu) {
  return moved / BytesPerSecond(kLookUpShare * gpu.memory_bandwidth.value());
}

bool applies_rotary_apart(const TransformerConfig& model, const StackSpec& stack) {
  return stack.fused_element_wise && !stack.fused_yarn_rotary && grows_rotary(model);
}

Seconds memory_bound_time(Bytes traffic, const GpuSpec& gpu) {
  return traffic / BytesPerSecond(gpu.memory_bandwidth.value() * gpu.memory_efficiency);
}

}  // namespace ptdp
