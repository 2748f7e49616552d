#include "cost_model/inputs/transformer_config.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "cost_model/error.h"
#include "cost_model/inputs/parameter_counts.h"

namespace ptdp {
namespace {

constexpr Range kExpertLoadRange = {1.0, 1000.0};

using Refuse = std::function<void(const std::string& why)>;

void check_latent_attention(const TransformerConfig& model, const Refuse& refuse) {
  if (!has_latent_attention(model)) {
    if (model.q_lora_rank != 0 || model.qk_head_dim != 0 || model.qk_pos_emb_head_dim != 0 ||
        model.v_head_dim != 0) {
      refuse(
          "q_lora_rank, qk_head_dim, qk_pos_emb_head_dim and v_head_dim need kv_lora_rank, the "
          "width of compressed keys and values");
    }
    return;
  }
  if (model.qk_head_dim == 0 || model.qk_pos_emb_head_dim == 0 || model.v_head_dim == 0) {
    refuse("kv_lora_rank needs qk_head_dim, qk_pos_emb_head_dim and v_head_dim");
  }
}

void check_positions(const TransformerConfig& model, const Refuse& refuse) {
  const RotaryEmbedding& rotary = model.rotary;
  if (model.position_embedding != PositionEmbedding::kLearned &&
      model.max_position_embeddings != 0) {
    refuse("max_position_embeddings needs position_embedding learned");
  }
  if (has_relative_positions(model) &&
      (has_latent_attention(model) || model.num_query_groups != model.num_attention_heads)) {
    refuse("position_embedding relative needs keys of their own for all query heads");
  }
  if (model.position_embedding != PositionEmbedding::kRope) {
    if (rotary != RotaryEmbedding{}) {
      refuse("keys of rotary positions need position_embedding rope");
    }
    return;
  }
  if (rotary_width(model) == 0 && !has_latent_attention(model)) {
    refuse("rotary_percent turns less than two elements of a head of " +
           std::to_string(model.kv_channels));
  }
  const bool needs_original =
      rotary.scaling != RopeScaling::kNone && rotary.scaling != RopeScaling::kLinear;
  if (needs_original && rotary.original_seq_length == 0) {
    refuse("rope_scaling llama3, yarn and longrope need rope_original_seq_length");
  }
  const std::size_t pairs = rotary.scaling == RopeScaling::kLongRope
                                ? static_cast<std::size_t>(rotary_width(model)) / 2
                                : 0;
  for (const auto& [key, factors] : {std::pair("rope_short_factors", &rotary.short_factors),
                                     std::pair("rope_long_factors", &rotary.long_factors)}) {
    if (factors->size() != pairs) {
      refuse(std::string(key) + " needs " + std::to_string(pairs) +
             " numbers, one for each pair of elements that is turned with rope_scaling longrope");
    }
  }
  if (rotary.scaling == RopeScaling::kLongRope && rotary.original_seq_length == 1) {
    refuse("rope_scaling longrope needs a rope_original_seq_length of at least 2");
  }
  if (rotary.scaling == RopeScaling::kLlama3 && rotary.high_freq_factor <= rotary.low_freq_factor) {
    refuse("rope_high_freq_factor must be above rope_low_freq_factor");
  }
}

void check_norms(const TransformerConfig& model, const Refuse& refuse) {
  if (model.parallel_residual && model.norm_placement != NormPlacement::kBefore) {
    refuse("parallel_residual needs norm_placement before");
  }
  if (model.shared_residual_norm && !model.parallel_residual) {
    refuse("shared_residual_norm needs parallel_residual");
  }
  if (!model.layernorm_bias && model.normalization != Normalization::kLayerNorm) {
    refuse("layernorm_bias false needs normalization layer-norm");
  }
  if (model.qk_layernorm_width != QkNormWidth::kHead && !model.qk_layernorm) {
    refuse("qk_layernorm_width needs qk_layernorm");
  }
}

void check_windows(const TransformerConfig& model, const Refuse& refuse) {
  if (model.window_size == 0 && model.chunked_attention) {
    refuse("chunked_attention needs window_size, the tokens of a chunk");
  }
  if (model.window_size == 0 && model.rotary.window_base != 0.0) {
    refuse("rotary_window_base needs window_size, the tokens that each attends to");
  }
  if (model.window_size == 0 && model.first_window_layer != 0) {
    refuse("first_window_layer needs window_size, the tokens that each attends to");
  }
  if (model.window_size == 0 && model.window_attn_skip_freq != 0) {
    refuse("window_attn_skip_freq needs window_size, the tokens that each attends to");
  }
}

void check_router_groups(const TransformerConfig& model, const Refuse& refuse) {
  const int groups = model.moe_router_num_groups;
  const int visited = model.moe_router_group_topk;
  if (groups == 0 && visited == 0) {
    return;
  }
  if (groups == 0 || visited == 0 || visited > groups || model.num_experts % groups != 0) {
    refuse("moe_router_group_topk " + std::to_string(visited) + " of moe_router_num_groups " +
           std::to_string(groups) + " is no choice among groups of num_experts " +
           std::to_string(model.num_experts));
  }
  if (model.moe_router_topk > visited * (model.num_experts / groups)) {
    refuse("moe_router_topk " + std::to_string(model.moe_router_topk) +
           " exceeds the experts of moe_router_group_topk " + std::to_string(visited) + " groups");
  }
}

TransformerConfig with_experts_resolved(TransformerConfig model, const Refuse& refuse) {
  if (model.num_experts == 0) {
    if (model.moe_router_topk != 0 || model.moe_ffn_hidden_size != 0) {
      refuse("moe_router_topk and moe_ffn_hidden_size need num_experts");
    }
    if (model.moe_shared_expert_intermediate_size != 0 || model.moe_shared_expert_gate ||
        model.moe_router_enable_expert_bias || model.moe_router_bias ||
        model.first_dense_layers != 0 || model.moe_layer_freq != 1 ||
        model.moe_router_num_groups != 0 || model.moe_router_group_topk != 0 ||
        model.moe_expert_capacity_factor != 0.0 || model.moe_load_imbalance != 1.0) {
      refuse("keys of a mixture of experts need num_experts");
    }
    return model;
  }
  if (model.moe_router_topk == 0) {
    refuse("num_experts needs moe_router_topk, the experts each token visits");
  }
  if (model.moe_router_topk > model.num_experts) {
    refuse("moe_router_topk " + std::to_string(model.moe_router_topk) + " exceeds num_experts " +
           std::to_string(model.num_experts));
  }
  if (num_expert_layers(model) == 0) {
    refuse("first_dense_layers " + std::to_string(model.first_dense_layers) +
           " and moe_layer_freq " + std::to_string(model.moe_layer_freq) + " leave none of the " +
           std::to_string(model.num_layers) + " layers with experts");
  }
  check_router_groups(model, refuse);
  if (model.moe_expert_capacity_factor != 0.0 && model.moe_load_imbalance != 1.0) {
    refuse(
        "moe_load_imbalance is for experts that take all tokens; with moe_expert_capacity_factor "
        "all have as many");
  }
  if (model.moe_shared_expert_gate && model.moe_shared_expert_intermediate_size == 0) {
    refuse("moe_shared_expert_gate needs moe_shared_expert_intermediate_size");
  }
  if (model.moe_ffn_hidden_size == 0) {
    model.moe_ffn_hidden_size = model.ffn_hidden_size;
  }
  return model;
}

}  // namespace

TransformerConfig resolved(TransformerConfig model, const std::string& place) {
  const Refuse refuse = [&place](const std::string& why) { throw Error(place + ": " + why); };
  if (model.num_query_groups == 0) {
    model.num_query_groups = model.num_attention_heads;
  }
  if (model.num_attention_heads % model.num_query_groups != 0) {
    refuse("num_query_groups " + std::to_string(model.num_query_groups) +
           " does not divide num_attention_heads " + std::to_string(model.num_attention_heads));
  }
  check_latent_attention(model, refuse);
  if (model.kv_channels == 0 && has_latent_attention(model)) {
    model.kv_channels = query_head_width(model);
  }
  if (model.kv_channels == 0) {
    if (model.hidden_size % model.num_attention_heads != 0) {
      refuse("num_attention_heads " + std::to_string(model.num_attention_heads) +
             " does not divide hidden_size " + std::to_string(model.hidden_size) +
             "; give kv_channels if that is meant");
    }
    model.kv_channels = model.hidden_size / model.num_attention_heads;
  }
  if (model.ffn_hidden_size == 0) {
    if (model.hidden_size > kWidestMatrix / 4) {
      refuse("hidden_size " + std::to_string(model.hidden_size) +
             " is too wide for the usual ffn_hidden_size of four times that");
    }
    model.ffn_hidden_size = 4 * model.hidden_size;
  }
  check_windows(model, refuse);
  if (model.attention_sinks && has_latent_attention(model)) {
    refuse("attention_sinks is not for latent attention");
  }
  if (!model.gated_linear_unit &&
      (model.activation_func_clamp_value != 0.0 || model.glu_linear_offset != 0.0)) {
    refuse("activation_func_clamp_value and glu_linear_offset need gated_linear_unit");
  }
  check_norms(model, refuse);
  check_positions(model, refuse);
  if (model.add_bias_linear &&
      (model.add_qkv_bias || model.add_projection_bias || model.add_mlp_bias)) {
    refuse(
        "add_qkv_bias, add_projection_bias and add_mlp_bias are for models with add_bias_linear "
        "false, which stands for all of them");
  }
  if (!has_dropout(model) && model.dropout_rates != kUsualDropoutRates) {
    refuse(
        "hidden_dropout, attention_dropout and embedding_dropout are for models with dropout, "
        "which this one lacks");
  }
  model = with_experts_resolved(model, refuse);
  if (!is_countable(model)) {
    refuse("the model has more than 1e18 parameters");
  }
  return model;
}

bool sums_biases_in_norms(const TransformerConfig& model, double hidden_dropout) {
  // A block has so much shared memory for sums in f32 (kMostShared of
  // kernels/cuda/norm_backward.cu) of gamma, of beta, and of the bias.
  constexpr int most_bytes = 96 << 10;
  const int sums = model.normalization == Normalization::kLayerNorm ? 3 : 2;
  return hidden_dropout == 0.0 && model.norm_placement == NormPlacement::kBefore &&
         !model.parallel_residual && model.residual_multiplier == 1.0 &&
         model.hidden_size <= most_bytes / (4 * sums);
}

int rotary_width(const TransformerConfig& model) {
  if (model.position_embedding != PositionEmbedding::kRope) {
    return 0;
  }
  // Rounded down as transformers does: int(head_dim · partial_rotary_factor), by pairs.
  return static_cast<int>(model.kv_channels * model.rotary.percent) / 2 * 2;
}

double yarn_growth(double factor, double scale) {
  constexpr double per_logarithm = 0.1;
  return factor <= 1.0 ? 1.0 : per_logarithm * scale * std::log(factor) + 1.0;
}

bool grows_rotary(const TransformerConfig& model) {
  const RotaryEmbedding& rotary = model.rotary;
  if (model.position_embedding != PositionEmbedding::kRope || has_latent_attention(model) ||
      rotary.scaling != RopeScaling::kYarn) {
    return false;
  }
  return (rotary.attention_factor > 0.0 ? rotary.attention_factor : yarn_growth(rotary.factor)) !=
         1.0;
}

int num_expert_layers(const TransformerConfig& model, int layers) {
  if (model.num_experts == 0) {
    return 0;
  }
  const int behind = std::max(layers - model.first_dense_layers, 0);
  return (behind + model.moe_layer_freq - 1) / model.moe_layer_freq;
}

int num_expert_layers(const TransformerConfig& model) {
  return num_expert_layers(model, model.num_layers);
}

namespace {

/// Reads or writes the fields that only the result of training depends on; those with GPT-2's
/// values may be left out.
template <class Fields>
void describe_numerics(Fields& fields, Described<Fields, TransformerConfig>& model) {
  const auto optional_number = [&fields](const std::string& key, auto& value, double usual,
                                         const Range& range) {
    if (fields.optional(key, value != usual)) {
      fields.exact_number(key, value, range);
    }
  };
  auto& rates = model.dropout_rates;
  optional_number("hidden_dropout", rates.hidden, kUsualDropoutRates.hidden, kDropoutRange);
  // A document that says nothing of it drops probabilities as it drops hidden states. Who reads a
  // model file takes another default.
  const double of_attention = has_dropout(model) ? kUsualDropout : kUsualDropoutRates.attention;
  optional_number("attention_dropout", rates.attention, of_attention, kDropoutRange);
  if constexpr (Fields::kIsReading) {
    if (!fields.has("attention_dropout")) {
      rates.attention = of_attention;
    }
  }
  optional_number("embedding_dropout", rates.embedding, kUsualDropoutRates.embedding,
                  kDropoutRange);
  const TransformerConfig usual;
  optional_number("layernorm_epsilon", model.layernorm_epsilon, usual.layernorm_epsilon,
                  kEpsilonRange);
  optional_flag(fields, "layernorm_zero_centered_gamma", model.layernorm_zero_centered_gamma,
                false);
  optional_number("init_method_std", model.init_method_std, usual.init_method_std, kDeviationRange);
  if (fields.optional("activation_func", model.activation_func.has_value())) {
    fields.choice("activation_func", held(model.activation_func),
                  NamedValues<Activation>(kActivationNames));
  }
  optional_flag(fields, "scale_attn_weights", model.scale_attn_weights, true);
  optional_flag(fields, "scale_attn_by_inverse_layer_idx", model.scale_attn_by_inverse_layer_idx,
                false);
  optional_number("query_pre_attn_scalar", model.query_pre_attn_scalar, 0.0, kPositiveRange);
  optional_number("attn_logit_softcapping", model.attn_logit_softcapping, 0.0, kPositiveRange);
  optional_number("final_logit_softcapping", model.final_logit_softcapping, 0.0, kPositiveRange);
  optional_number("embedding_multiplier", model.embedding_multiplier, 1.0, kPositiveRange);
  optional_number("logits_multiplier", model.logits_multiplier, 1.0, kPositiveRange);
  optional_number("residual_multiplier", model.residual_multiplier, 1.0, kPositiveRange);
  optional_flag(fields, "parallel_residual", model.parallel_residual, false);
  optional_flag(fields, "shared_residual_norm", model.shared_residual_norm, false);
  optional_flag(fields, "embedding_layernorm", model.embedding_layernorm, false);
  optional_number("activation_func_clamp_value", model.activation_func_clamp_value, 0.0,
                  kPositiveRange);
  optional_number("glu_linear_offset", model.glu_linear_offset, 0.0, kPositiveRange);
}

/// Reads or writes the angles of rotary positions; those with usual values may be left out.
template <class Fields>
void describe_rotary(Fields& fields, Described<Fields, RotaryEmbedding>& rotary) {
  const RotaryEmbedding usual;
  const auto optional_number = [&fields](const std::string& key, auto& value, double usual_value,
                                         const Range& range) {
    if (fields.optional(key, value != usual_value)) {
      fields.exact_number(key, value, range);
    }
  };
  optional_number("rotary_base", rotary.base, usual.base, kRotaryBaseRange);
  optional_number("rotary_percent", rotary.percent, usual.percent, kRotaryPercentRange);
  if (fields.optional("rope_scaling", rotary.scaling != usual.scaling)) {
    fields.choice("rope_scaling", rotary.scaling, NamedValues<RopeScaling>(kRopeScalingNames));
  }
  optional_number("rope_scaling_factor", rotary.factor, usual.factor, kPositiveRange);
  if (fields.optional("rope_original_seq_length", rotary.original_seq_length != 0)) {
    fields.count("rope_original_seq_length", rotary.original_seq_length, 1, kLongestSequence);
  }
  optional_number("rope_low_freq_factor", rotary.low_freq_factor, usual.low_freq_factor,
                  kPositiveRange);
  optional_number("rope_high_freq_factor", rotary.high_freq_factor, usual.high_freq_factor,
                  kPositiveRange);
  optional_number("rope_beta_fast", rotary.beta_fast, usual.beta_fast, kPositiveRange);
  optional_number("rope_beta_slow", rotary.beta_slow, usual.beta_slow, kPositiveRange);
  optional_number("rope_attention_factor", rotary.attention_factor, 0.0, kPositiveRange);
  const auto optional_numbers = [&fields](const std::string& key, auto& values) {
    if (fields.optional(key, !values.empty())) {
      fields.exact_numbers(key, values, kPositiveRange);
    }
  };
  optional_numbers("rope_short_factors", rotary.short_factors);
  optional_numbers("rope_long_factors", rotary.long_factors);
  if (fields.optional("rotary_interleaved", rotary.interleaved)) {
    fields.flag("rotary_interleaved", rotary.interleaved);
  }
  optional_number("rotary_window_base", rotary.window_base, 0.0, kRotaryBaseRange);
  if (fields.optional("no_rope_freq", rotary.no_rope_freq != 0)) {
    fields.count("no_rope_freq", rotary.no_rope_freq, 1, kMostModelLayers);
  }
}

}  // namespace

template <class Fields>
void describe(Fields& fields, Described<Fields, TransformerConfig>& model) {
  const auto optional_count = [&fields](const std::string& key, auto& value, int most) {
    if (fields.optional(key, value != 0)) {
      fields.count(key, value, 1, most);
    }
  };
  fields.count("num_layers", model.num_layers, 1, kMostModelLayers);
  fields.count("hidden_size", model.hidden_size, 1, kWidestMatrix);
  fields.count("num_attention_heads", model.num_attention_heads, 1, kWidestMatrix);
  optional_count("num_query_groups", model.num_query_groups, kWidestMatrix);
  optional_count("kv_channels", model.kv_channels, kWidestMatrix);
  optional_count("ffn_hidden_size", model.ffn_hidden_size, kWidestMatrix);
  fields.count("vocab_size", model.vocab_size, 1, kWidestMatrix);
  fields.count("seq_length", model.seq_length, 1, kLongestSequence);
  optional_count("max_position_embeddings", model.max_position_embeddings, kLongestSequence);
  optional_flag(fields, "gated_linear_unit", model.gated_linear_unit, false);
  optional_flag(fields, "add_bias_linear", model.add_bias_linear, true);
  optional_flag(fields, "untied_embeddings", model.untied_embeddings, false);
  if (fields.optional("position_embedding",
                      model.position_embedding != PositionEmbedding::kLearned)) {
    fields.choice("position_embedding", model.position_embedding,
                  NamedValues<PositionEmbedding>(kPositionEmbeddingNames));
  }
  if (fields.optional("normalization", model.normalization != Normalization::kLayerNorm)) {
    fields.choice("normalization", model.normalization,
                  NamedValues<Normalization>(kNormalizationNames));
  }
  optional_flag(fields, "layernorm_bias", model.layernorm_bias, true);
  if (fields.optional("dropout", model.dropout.has_value())) {
    fields.flag("dropout", held(model.dropout));
  }
  describe_numerics(fields, model);
  optional_flag(fields, "add_qkv_bias", model.add_qkv_bias, false);
  optional_flag(fields, "add_projection_bias", model.add_projection_bias, false);
  optional_flag(fields, "add_mlp_bias", model.add_mlp_bias, false);
  describe_rotary(fields, model.rotary);
  if (fields.optional("norm_placement", model.norm_placement != NormPlacement::kBefore)) {
    fields.choice("norm_placement", model.norm_placement,
                  NamedValues<NormPlacement>(kNormPlacementNames));
  }
  optional_flag(fields, "attention_sinks", model.attention_sinks, false);
  optional_flag(fields, "qk_layernorm", model.qk_layernorm, false);
  if (fields.optional("qk_layernorm_width", model.qk_layernorm_width != QkNormWidth::kHead)) {
    fields.choice("qk_layernorm_width", model.qk_layernorm_width,
                  NamedValues<QkNormWidth>(kQkNormWidthNames));
  }
  optional_count("window_size", model.window_size, kLongestSequence);
  optional_count("first_window_layer", model.first_window_layer, kMostModelLayers);
  optional_count("window_attn_skip_freq", model.window_attn_skip_freq, kMostModelLayers);
  optional_flag(fields, "chunked_attention", model.chunked_attention, false);
  optional_count("q_lora_rank", model.q_lora_rank, kWidestMatrix);
  optional_count("kv_lora_rank", model.kv_lora_rank, kWidestMatrix);
  optional_count("qk_head_dim", model.qk_head_dim, kWidestMatrix);
  optional_count("qk_pos_emb_head_dim", model.qk_pos_emb_head_dim, kWidestMatrix);
  optional_count("v_head_dim", model.v_head_dim, kWidestMatrix);
  optional_count("num_experts", model.num_experts, kMostExperts);
  optional_count("moe_router_topk", model.moe_router_topk, kMostExperts);
  optional_count("moe_ffn_hidden_size", model.moe_ffn_hidden_size, kWidestMatrix);
  optional_count("moe_shared_expert_intermediate_size", model.moe_shared_expert_intermediate_size,
                 kWidestMatrix);
  optional_flag(fields, "moe_shared_expert_gate", model.moe_shared_expert_gate, false);
  optional_flag(fields, "moe_router_enable_expert_bias", model.moe_router_enable_expert_bias,
                false);
  optional_flag(fields, "moe_router_bias", model.moe_router_bias, false);
  optional_count("moe_router_num_groups", model.moe_router_num_groups, kMostExperts);
  optional_count("moe_router_group_topk", model.moe_router_group_topk, kMostExperts);
  optional_count("first_dense_layers", model.first_dense_layers, kMostModelLayers);
  if (fields.optional("moe_layer_freq", model.moe_layer_freq != 1)) {
    fields.count("moe_layer_freq", model.moe_layer_freq, 1, kMostModelLayers);
  }
  if (fields.optional("moe_expert_capacity_factor", model.moe_expert_capacity_factor != 0.0)) {
    fields.number("moe_expert_capacity_factor", model.moe_expert_capacity_factor, kExpertLoadRange);
  }
  if (fields.optional("moe_load_imbalance", model.moe_load_imbalance != 1.0)) {
    fields.number("moe_load_imbalance", model.moe_load_imbalance, kExpertLoadRange);
  }
  optional_count("mtp_num_layers", model.mtp_num_layers, kMostModelLayers);
}
template void describe(ObjectReader&, TransformerConfig&);
template void describe(ObjectWriter&, const TransformerConfig&);

template <class Fields>
void describe_dropout(Fields& fields, Described<Fields, DropoutRates>& rates) {
  fields.number("dropout", rates.hidden, {0.0, 1.0, "a fraction"});
  if constexpr (Fields::kIsReading) {
    rates = rates.hidden;
  }
  if (fields.optional("attention_dropout", rates.attention != rates.hidden)) {
    fields.number("attention_dropout", rates.attention, {0.0, 1.0, "a fraction"});
  }
  if (fields.optional("embedding_dropout", rates.embedding != rates.hidden)) {
    fields.number("embedding_dropout", rates.embedding, {0.0, 1.0, "a fraction"});
  }
}
template void describe_dropout(ObjectReader&, DropoutRates&);
template void describe_dropout(ObjectWriter&, const DropoutRates&);

}  // namespace ptdp
