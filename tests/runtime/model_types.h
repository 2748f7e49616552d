// Small models of today's types, for tests that no type may fail.
#pragma once

#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp::testing {

/// Names of the types that as_type() knows. Ranks share the key heads of few_keys, of
/// olmo2_few_keys and of multi_query from 4, from 4 and from 2 ranks on.
[[nodiscard]] inline std::vector<std::string> model_types() {
  return {"llama", "qwen2",   "qwen3",    "gemma2",      "gpt_neox",      "nemotron",
          "olmo2", "granite", "few_keys", "multi_query", "olmo2_few_keys"};
}

/// Returns a model with the sizes of `shape` but eight heads of six channels, and with the parts
/// that tell the type from GPT-2: norms, positions, gates, key heads, biases, caps, windows.
[[nodiscard]] inline TransformerConfig as_type(const std::string& type,
                                               const TransformerConfig& shape) {
  TransformerConfig model = {.num_layers = shape.num_layers,
                             .hidden_size = shape.hidden_size,
                             .num_attention_heads = 8,
                             .num_query_groups = 4,
                             .kv_channels = 6,
                             .ffn_hidden_size = shape.ffn_hidden_size,
                             .vocab_size = shape.vocab_size,
                             .seq_length = shape.seq_length,
                             .gated_linear_unit = true,
                             .add_bias_linear = false,
                             .untied_embeddings = true,
                             .position_embedding = PositionEmbedding::kRope,
                             .normalization = Normalization::kRmsNorm,
                             .init_method_std = shape.init_method_std};
  if (type == "llama") {
    model.rotary = {
        .base = 5000.0, .scaling = RopeScaling::kLlama3, .factor = 4.0, .original_seq_length = 16};
  } else if (type == "qwen2") {
    model.add_qkv_bias = true;
    model.untied_embeddings = false;
    model.window_size = 3;
    model.first_window_layer = 1;
  } else if (type == "multi_query") {
    model.num_query_groups = 1;
    model.kv_channels = 8;
    model.add_qkv_bias = true;
  } else if (type == "few_keys") {
    model.num_query_groups = 2;
    model.qk_layernorm = true;
  } else if (type == "qwen3") {
    model.qk_layernorm = true;
    model.rotary = {.scaling = RopeScaling::kYarn, .factor = 4.0, .original_seq_length = 16};
  } else if (type == "gemma2") {
    model.untied_embeddings = false;
    model.layernorm_zero_centered_gamma = true;
    model.activation_func = Activation::kTanhGelu;
    model.query_pre_attn_scalar = 10.0;
    model.attn_logit_softcapping = 2.0;
    model.final_logit_softcapping = 3.0;
    model.embedding_multiplier = 4.5;
    model.norm_placement = NormPlacement::kBeforeAndBehind;
    model.window_size = 5;
    model.window_attn_skip_freq = 2;
  } else if (type == "gpt_neox") {
    model.num_query_groups = 8;
    model.gated_linear_unit = false;
    model.add_bias_linear = true;
    model.normalization = Normalization::kLayerNorm;
    model.activation_func = Activation::kGelu;
    model.rotary.percent = 0.7;
    model.parallel_residual = true;
  } else if (type == "nemotron") {
    model.gated_linear_unit = false;
    model.normalization = Normalization::kLayerNorm;
    model.layernorm_zero_centered_gamma = true;
    model.activation_func = Activation::kSquaredRelu;
    model.rotary.percent = 0.5;
    model.logits_multiplier = 0.5;
    model.scale_attn_by_inverse_layer_idx = true;
  } else if (type == "olmo2") {
    model.norm_placement = NormPlacement::kBehind;
    model.qk_layernorm = true;
    model.qk_layernorm_width = QkNormWidth::kAllHeads;
  } else if (type == "olmo2_few_keys") {
    model.num_query_groups = 2;
    model.norm_placement = NormPlacement::kBehind;
    model.layernorm_zero_centered_gamma = true;
    model.qk_layernorm = true;
    model.qk_layernorm_width = QkNormWidth::kAllHeads;
  } else if (type == "granite") {
    model.untied_embeddings = false;
    model.add_mlp_bias = true;
    model.query_pre_attn_scalar = 20.0;
    model.embedding_multiplier = 3.5;
    model.logits_multiplier = 0.6;
    model.residual_multiplier = 0.3;
  }
  return resolved(model, type);
}

}  // namespace ptdp::testing
