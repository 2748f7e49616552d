#include "runtime/model/executed_fields.h"

#include <algorithm>

#include "cost_model/inputs/config_fields.h"

namespace ptdp {
namespace {

constexpr std::string_view kAny = "any";

/// Returns the row of a field whose values are all executed.
ExecutedField any(std::string_view key) {
  return {.key = key, .executes = kAny};
}

/// Returns the row of a field of which only the values `executes` are executed.
ExecutedField only(std::string_view key, std::string_view executes, bool is_executed,
                   std::string found) {
  return {.key = key,
          .executes = executes,
          .is_executed = is_executed,
          .found = is_executed ? "" : std::move(found)};
}

/// Returns the first row that is not executed; null when all are.
const ExecutedField* first_unexecuted(const std::vector<ExecutedField>& fields) {
  const auto found = std::find_if_not(fields.begin(), fields.end(),
                                      [](const ExecutedField& field) { return field.is_executed; });
  return found == fields.end() ? nullptr : &*found;
}

std::string number(int value) {
  return std::to_string(value);
}

}  // namespace

std::vector<ExecutedField> executed_fields(const ParallelConfig& config) {
  std::vector<ExecutedField> fields;
  for_each_config_field([&](const auto& field) {
    if (field.key == "schedule") {
      fields.push_back(only(field.key, "synchronous schedules",
                            traits_of(config.schedule).is_synchronous,
                            spelled(config.schedule) + ", which trains with stale weights"));
    } else if (field.traits.executes.empty()) {
      fields.push_back(any(field.key));
    } else {
      fields.push_back(only(field.key, field.traits.executes, field.is_usual(config),
                            spelled(config.*field.member)));
    }
  });
  return fields;
}

std::vector<ExecutedField> executed_fields(const TransformerConfig& model) {
  // Binds every field by name, so that an added field does not compile before it has its row here.
  const auto& [num_layers, hidden_size, num_attention_heads, num_query_groups, kv_channels,
               ffn_hidden_size, vocab_size, seq_length, gated_linear_unit, add_bias_linear,
               untied_embeddings, position_embedding, normalization, dropout, dropout_rates,
               layernorm_epsilon, layernorm_zero_centered_gamma, init_method_std, activation_func,
               scale_attn_weights, scale_attn_by_inverse_layer_idx, query_pre_attn_scalar,
               attn_logit_softcapping, final_logit_softcapping, embedding_multiplier,
               logits_multiplier, rotary, parallel_residual, add_qkv_bias, add_projection_bias,
               add_mlp_bias, norm_placement, qk_layernorm, qk_layernorm_width, window_size,
               first_window_layer, window_attn_skip_freq, q_lora_rank, kv_lora_rank, qk_head_dim,
               qk_pos_emb_head_dim, v_head_dim, num_experts, moe_router_topk, moe_ffn_hidden_size,
               moe_shared_expert_intermediate_size, moe_shared_expert_gate,
               moe_router_enable_expert_bias, moe_router_num_groups, moe_router_group_topk,
               first_dense_layers, moe_layer_freq, moe_expert_capacity_factor, moe_load_imbalance,
               mtp_num_layers] = model;
  const bool has_own_groups = num_query_groups == 0 || num_query_groups == num_attention_heads;
  // Without experts, the other fields about experts mean nothing.
  const bool is_dense = num_experts == 0;
  const bool is_latent = has_latent_attention(model);
  const std::string experts = "has " + number(num_experts) + " experts";
  const std::string latent = "has latent attention";
  const std::string biases = "has biases on some of its linear layers";
  const std::string window = "attends to a window of " + number(window_size) + " tokens";
  return {
      any("num_layers"),
      any("hidden_size"),
      any("num_attention_heads"),
      only("num_query_groups", "one for each head", has_own_groups,
           "has " + number(num_query_groups) + " query groups for " + number(num_attention_heads) +
               " heads"),
      any("kv_channels"),
      any("ffn_hidden_size"),
      any("vocab_size"),
      any("seq_length"),
      only("gated_linear_unit", "false", !gated_linear_unit, "has a gated MLP"),
      any("add_bias_linear"),
      any("untied_embeddings"),
      only("position_embedding", "learned and none", position_embedding != PositionEmbedding::kRope,
           "has rotary positions"),
      only("normalization", "layer-norm", normalization == Normalization::kLayerNorm,
           "has RMS norms"),
      any("dropout"),
      any("hidden_dropout"),
      any("attention_dropout"),
      any("embedding_dropout"),
      any("layernorm_epsilon"),
      only("layernorm_zero_centered_gamma", "false", !layernorm_zero_centered_gamma,
           "has norms whose weights are stored minus 1"),
      any("init_method_std"),
      only("activation_func", "gelu_new", activation_of(model) == Activation::kTanhGelu,
           "has the activation " +
               std::string(
                   name_of(activation_of(model), NamedValues<Activation>(kActivationNames))) +
               ", not the tanh form of GELU, gelu_new"),
      only("scale_attn_weights", "true", scale_attn_weights,
           "does not scale attention by the root of a head's width: scale_attn_weights is false"),
      only("scale_attn_by_inverse_layer_idx", "false", !scale_attn_by_inverse_layer_idx,
           "scales attention by the number of a layer: scale_attn_by_inverse_layer_idx is true"),
      only("query_pre_attn_scalar", "0", query_pre_attn_scalar == 0.0,
           "scales attention by a number of its own"),
      only("attn_logit_softcapping", "0", attn_logit_softcapping == 0.0, "caps attention's scores"),
      only("final_logit_softcapping", "0", final_logit_softcapping == 0.0, "caps logits"),
      only("embedding_multiplier", "1", embedding_multiplier == 1.0, "multiplies embeddings"),
      only("logits_multiplier", "1", logits_multiplier == 1.0, "multiplies logits"),
      any("rotary_base"),
      any("rotary_percent"),
      any("rope_scaling"),
      any("rope_scaling_factor"),
      any("rope_original_seq_length"),
      any("rope_low_freq_factor"),
      any("rope_high_freq_factor"),
      any("rope_beta_fast"),
      any("rope_beta_slow"),
      any("rope_attention_factor"),
      only("parallel_residual", "false", !parallel_residual, "has parallel branches"),
      only("add_qkv_bias", "false", !add_qkv_bias, biases),
      only("add_projection_bias", "false", !add_projection_bias, biases),
      only("add_mlp_bias", "false", !add_mlp_bias, biases),
      only("norm_placement", "before", norm_placement == NormPlacement::kBefore,
           "has norms behind branches"),
      only("qk_layernorm", "false", !qk_layernorm, "has norms of queries and keys"),
      only("qk_layernorm_width", "head", qk_layernorm_width == QkNormWidth::kHead,
           "has norms over all heads"),
      only("window_size", "none, or no less than the sequence", !has_window(model), window),
      only("first_window_layer", "without a window, any", !has_window(model), window),
      only("window_attn_skip_freq", "without a window, any", !has_window(model), window),
      only("q_lora_rank", "0", !is_latent, latent),
      only("kv_lora_rank", "0", !is_latent, latent),
      only("qk_head_dim", "0", !is_latent, latent),
      only("qk_pos_emb_head_dim", "0", !is_latent, latent),
      only("v_head_dim", "0", !is_latent, latent),
      only("num_experts", "0", is_dense, experts),
      only("moe_router_topk", "0", is_dense, experts),
      only("moe_ffn_hidden_size", "0", is_dense, experts),
      only("moe_shared_expert_intermediate_size", "0", is_dense, experts),
      only("moe_shared_expert_gate", "false", is_dense, experts),
      only("moe_router_enable_expert_bias", "false", is_dense, experts),
      only("moe_router_num_groups", "0", is_dense, experts),
      only("moe_router_group_topk", "0", is_dense, experts),
      only("first_dense_layers", "without experts, any", is_dense, experts),
      only("moe_layer_freq", "without experts, any", is_dense, experts),
      only("moe_expert_capacity_factor", "0", is_dense, experts),
      only("moe_load_imbalance", "without experts, any", is_dense, experts),
      only("mtp_num_layers", "0", mtp_num_layers == 0,
           "predicts " + number(mtp_num_layers) + " more tokens"),
  };
}

std::string find_unexecuted(const ParallelConfig& config) {
  const std::vector<ExecutedField> fields = executed_fields(config);
  const ExecutedField* const field = first_unexecuted(fields);
  return field == nullptr ? ""
                          : "config." + std::string(field->key) + ": ptdp-run executes " +
                                std::string(field->executes) + ", got " + field->found;
}

std::string find_unsupported_feature(const TransformerConfig& model) {
  const std::vector<ExecutedField> fields = executed_fields(model);
  const ExecutedField* const field = first_unexecuted(fields);
  return field == nullptr ? "" : field->found;
}

}  // namespace ptdp
