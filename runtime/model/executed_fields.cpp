#include "runtime/model/executed_fields.h"

#include <algorithm>

#include "cost_model/inputs/config_fields.h"
#include "cost_model/inputs/rank_sizes.h"

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
               ffn_hidden_size, vocab_size, seq_length, max_position_embeddings, gated_linear_unit,
               add_bias_linear, untied_embeddings, position_embedding, normalization,
               layernorm_bias, dropout, dropout_rates, layernorm_epsilon,
               layernorm_zero_centered_gamma, init_method_std, activation_func, scale_attn_weights,
               scale_attn_by_inverse_layer_idx, query_pre_attn_scalar, attn_logit_softcapping,
               final_logit_softcapping, embedding_multiplier, logits_multiplier,
               residual_multiplier, activation_func_clamp_value, glu_linear_offset, rotary,
               parallel_residual, shared_residual_norm, embedding_layernorm, add_qkv_bias,
               add_projection_bias, add_mlp_bias, norm_placement, attention_sinks, qk_layernorm,
               qk_layernorm_width, window_size, first_window_layer, window_attn_skip_freq,
               chunked_attention, q_lora_rank, kv_lora_rank, qk_head_dim, qk_pos_emb_head_dim,
               v_head_dim, num_experts, moe_router_topk, moe_ffn_hidden_size,
               moe_shared_expert_intermediate_size, moe_shared_expert_gate,
               moe_router_enable_expert_bias, moe_router_bias, moe_router_num_groups,
               moe_router_group_topk, first_dense_layers, moe_layer_freq,
               moe_expert_capacity_factor, moe_load_imbalance, mtp_num_layers] = model;
  // Without experts, the other fields about experts mean nothing.
  const bool is_dense = num_experts == 0;
  const bool is_latent = has_latent_attention(model);
  const bool is_relative = has_relative_positions(model);
  const std::string experts = "has " + number(num_experts) + " experts";
  const std::string latent = "has latent attention";
  return {
      any("num_layers"),
      any("hidden_size"),
      any("num_attention_heads"),
      any("num_query_groups"),
      any("kv_channels"),
      any("ffn_hidden_size"),
      any("vocab_size"),
      any("seq_length"),
      only("max_position_embeddings", "0", max_position_embeddings == 0,
           "has " + number(max_position_embeddings) + " rows of learned positions"),
      any("gated_linear_unit"),
      any("add_bias_linear"),
      any("untied_embeddings"),
      only("position_embedding", "learned, rope, none",
           position_embedding != PositionEmbedding::kAlibi && !is_relative,
           is_relative ? "has relative positions" : "has ALiBi positions"),
      any("normalization"),
      only("layernorm_bias", "true", layernorm_bias, "has layer norms without biases"),
      any("dropout"),
      any("hidden_dropout"),
      any("attention_dropout"),
      any("embedding_dropout"),
      any("layernorm_epsilon"),
      any("layernorm_zero_centered_gamma"),
      any("init_method_std"),
      any("activation_func"),
      any("scale_attn_weights"),
      any("scale_attn_by_inverse_layer_idx"),
      any("query_pre_attn_scalar"),
      any("attn_logit_softcapping"),
      any("final_logit_softcapping"),
      any("embedding_multiplier"),
      any("logits_multiplier"),
      any("residual_multiplier"),
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
      any("rope_short_factors"),
      any("rope_long_factors"),
      only("rotary_interleaved", "false", !rotary.interleaved,
           "turns neighbors of a head's elements together"),
      only("rotary_window_base", "0", rotary.window_base == 0.0,
           "has other rotary angles in layers with a window"),
      only("no_rope_freq", "0", rotary.no_rope_freq == 0,
           "has layers without rotary positions among others"),
      any("parallel_residual"),
      only("shared_residual_norm", "false", !shared_residual_norm,
           "has one norm for both branches of a layer"),
      only("embedding_layernorm", "false", !embedding_layernorm, "has a norm of embeddings"),
      only("activation_func_clamp_value", "0", activation_func_clamp_value == 0.0,
           "clamps what goes into the activation"),
      only("glu_linear_offset", "0", glu_linear_offset == 0.0,
           "adds a number to what the gate weighs"),
      any("add_qkv_bias"),
      any("add_projection_bias"),
      any("add_mlp_bias"),
      any("norm_placement"),
      only("attention_sinks", "false", !attention_sinks, "has attention sinks"),
      any("qk_layernorm"),
      only("qk_layernorm_width", "head, all-heads",
           qk_layernorm_width == QkNormWidth::kHead || qk_layernorm_width == QkNormWidth::kAllHeads,
           qk_layernorm_width == QkNormWidth::kEachHead
               ? "has norms of queries and keys with weights of their own for each head"
               : "has norms of queries and keys without weights"),
      any("window_size"),
      any("first_window_layer"),
      any("window_attn_skip_freq"),
      only("chunked_attention", "false", !chunked_attention, "attends within chunks"),
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
      only("moe_router_bias", "false", is_dense, experts),
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

std::string find_unexecuted(const TransformerConfig& model, const ParallelConfig& config) {
  if (splits_norms(model, config.tp) && model.normalization == Normalization::kLayerNorm) {
    return "config.tp: ptdp-run executes 1 where layer norms of queries and keys reach over all "
           "heads, got " +
           number(config.tp);
  }
  return find_unexecuted(config);
}

std::string find_unsupported_feature(const TransformerConfig& model) {
  const std::vector<ExecutedField> fields = executed_fields(model);
  const ExecutedField* const field = first_unexecuted(fields);
  return field == nullptr ? "" : field->found;
}

}  // namespace ptdp
