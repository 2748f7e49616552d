// Reads what decides the result of training beside shapes and positions.
#include <array>
#include <cmath>
#include <string>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"
#include "cost_model/text/object_writer.h"

namespace ptdp::huggingface {
namespace {

/// Reads the activation. The model keeps none if it is the one that it has without.
void read_activation(const Keys& keys, ModelType type, const TypeTraits& traits,
                     TransformerConfig& model) {
  const Activation found = activation_or(keys, traits.activation_key, traits.activation);
  if (type == ModelType::kGemma) {
    // Until version 4 transformers read hidden_activation alone; version 5 reads hidden_act alone.
    const Activation of_old = activation_or(keys, "hidden_activation", traits.activation);
    if (found != of_old) {
      const NamedValues<Activation> names(kActivationNames);
      keys.refuse("hidden_act", "expected hidden_activation, " +
                                    std::string(name_of(of_old, names)) +
                                    ", since versions of transformers read either, got " +
                                    std::string(name_of(found, names)));
    }
  } else if (is_one_of(type, {ModelType::kGemma2, ModelType::kGemma3})) {
    keys.pass_over(std::array{"hidden_act"});  // which no version of the class reads
  }
  if (found != activation_of(model)) {
    model.activation_func = found;
  }
}

/// Sets the width whose root divides scores; 0 if that is what a head's does.
void set_query_scalar(double scalar, TransformerConfig& model) {
  const int head =
      model.kv_channels != 0 ? model.kv_channels : model.hidden_size / model.num_attention_heads;
  model.query_pre_attn_scalar = scalar == head ? 0.0 : scalar;
}

/// Sets what Gemma has beside Llama. Embeddings are multiplied by the root of their width, which
/// transformers rounds to the type of the weights when it multiplies.
void read_gemma(const Keys& keys, ModelType type, TransformerConfig& model) {
  model.embedding_multiplier = as_written(std::sqrt(model.hidden_size));
  keys.expect("use_bidirectional_attention", false, "a token attends to those before it");
  if (type == ModelType::kGemma) {
    return;
  }
  constexpr double usual_scalar = 256.0;
  const bool has_caps = type == ModelType::kGemma2;
  const double usual_cap_of_scores = has_caps ? 50.0 : 0.0;
  const double usual_cap_of_logits = has_caps ? 30.0 : 0.0;
  model.norm_placement = NormPlacement::kBeforeAndBehind;
  set_query_scalar(keys.number_or("query_pre_attn_scalar", usual_scalar, kPositiveRange), model);
  model.attn_logit_softcapping =
      keys.nullable_number("attn_logit_softcapping", usual_cap_of_scores, kPositiveRange);
  model.final_logit_softcapping =
      keys.nullable_number("final_logit_softcapping", usual_cap_of_logits, kPositiveRange);
}

/// Sets Granite's multipliers. Scores are multiplied by one in place of a root's inverse.
void read_granite(const Keys& keys, TransformerConfig& model) {
  model.embedding_multiplier = keys.number_or("embedding_multiplier", 1.0, kPositiveRange);
  model.logits_multiplier = as_written(1.0 / keys.number_or("logits_scaling", 1.0, kPositiveRange));
  model.residual_multiplier = keys.number_or("residual_multiplier", 1.0, kPositiveRange);
  const double scale = keys.number_or("attention_multiplier", 1.0, {1e-4, 1e4});
  set_query_scalar(as_written(1.0 / (scale * scale)), model);
}

/// Sets what both generations of Command R have: parallel branches behind one norm, without biases.
void read_cohere(const Keys& keys, TransformerConfig& model) {
  model.layernorm_bias = false;
  model.parallel_residual = model.shared_residual_norm = true;
  model.logits_multiplier = keys.number_or("logit_scale", 0.0625, kPositiveRange);
  for (const char* key : {"use_gated_activation", "use_parallel_block", "use_embedding_sharing"}) {
    keys.expect(key, true, "what this type always has");
  }
  keys.pass_over(std::array{"order_of_interleaved_layers", "position_embedding_type",
                            "use_parallel_embedding"});
}

/// Passes over keys of GPT-BigCode, which released files of starcoder2 still have.
void pass_over_bigcode(const Keys& keys) {
  keys.pass_over(std::array{"activation_function", "attention_softmax_in_fp32",
                            "layer_norm_epsilon", "mlp_type", "norm_type",
                            "scale_attention_softmax_in_fp32", "scale_attn_weights"});
}

}  // namespace

void read_numerics(const Keys& keys, ModelType type, TransformerConfig& model) {
  const TypeTraits traits = traits_of(type);
  model.layernorm_epsilon = keys.number_or(traits.epsilon_key, traits.epsilon, kEpsilonRange);
  model.init_method_std =
      keys.number_or("initializer_range", traits.init_method_std, kDeviationRange);
  model.layernorm_zero_centered_gamma = traits.zero_centered_gamma;
  read_activation(keys, type, traits, model);
  switch (type) {
    case ModelType::kGpt2:
      model.scale_attn_weights = keys.flag_or("scale_attn_weights", true);
      model.scale_attn_by_inverse_layer_idx =
          keys.flag_or("scale_attn_by_inverse_layer_idx", false);
      break;
    case ModelType::kGptBigCode:
      model.scale_attn_weights = keys.flag_or("scale_attn_weights", true);
      keys.pass_over(std::array{"attention_softmax_in_fp32", "inference_runner", "max_batch_size",
                                "pad_key_length", "pre_allocate_kv_cache",
                                "scale_attention_softmax_in_fp32", "validate_runner_input"});
      break;
    case ModelType::kGptNeox:
      model.parallel_residual = keys.flag_or("use_parallel_residual", true);
      break;
    case ModelType::kStableLm:
      keys.expect("use_parallel_residual", false,
                  "both branches of this type would share one norm");
      break;
    case ModelType::kGemma:
    case ModelType::kGemma2:
    case ModelType::kGemma3:
      read_gemma(keys, type, model);
      break;
    case ModelType::kGranite:
    case ModelType::kGraniteMoe:
      read_granite(keys, model);
      break;
    case ModelType::kCohere:
    case ModelType::kCohere2:
      read_cohere(keys, model);
      break;
    case ModelType::kGlm4:
      model.norm_placement = NormPlacement::kBeforeAndBehind;
      break;
    case ModelType::kLlama4:
      // The model is read for its costs alone.
      keys.pass_over(
          std::array{"attn_scale", "attn_temperature_tuning", "floor_scale", "for_llm_compressor"});
      break;
    case ModelType::kExaone4:
    case ModelType::kOlmo2:
      model.norm_placement = NormPlacement::kBehind;
      break;
    case ModelType::kStarcoder2:
      pass_over_bigcode(keys);
      break;
    case ModelType::kGptOss:
      // hidden_act says silu; the class has x·sigmoid(1.702 x) of bounded x (GptOssExperts).
      model.activation_func = Activation::kQuickGelu;
      model.activation_func_clamp_value = keys.number_or("swiglu_limit", 7.0, kPositiveRange);
      model.glu_linear_offset = 1.0;
      break;
    case ModelType::kPhi3:
      keys.expect("lm_head_bias", false, "logits have no biases");
      break;
    case ModelType::kLlama:
    case ModelType::kMistral:
    case ModelType::kMixtral:
    case ModelType::kQwen2:
    case ModelType::kQwen2Moe:
    case ModelType::kQwen3:
    case ModelType::kQwen3Moe:
    case ModelType::kDeepseekV2:
    case ModelType::kDeepseekV3:
    case ModelType::kNemotron:
    case ModelType::kOlmoe:
    case ModelType::kSmolLm3:
    case ModelType::kGlm4Moe:
    case ModelType::kSeedOss:
    case ModelType::kErnie45:
    case ModelType::kMiniMaxM2:
    case ModelType::kOpt:
    case ModelType::kBloom:
    case ModelType::kMpt:
    case ModelType::kFalcon:
    case ModelType::kDbrx:
      break;
  }
  if (keys.has("dual_chunk_attention_config")) {
    keys.refuse("dual_chunk_attention_config", "expected none: tokens attend by their distance");
  }
}

void read_dropout(const Keys& keys, ModelType type, TransformerConfig& model) {
  const TypeTraits traits = traits_of(type);
  const auto rate = [&](const std::string& key) {
    return key.empty() ? 0.0 : keys.number_or(key, traits.dropout, kDropoutRange);
  };
  DropoutRates rates;
  rates.attention = rate(traits.attention_dropout_key);
  rates.hidden = rate(traits.hidden_dropout_key);
  rates.embedding = rate(traits.embedding_dropout_key);
  for (const char* key : {"hidden_dropout", "embd_pdrop"}) {
    if (key != traits.hidden_dropout_key && key != traits.embedding_dropout_key) {
      keys.expect_number(key, 0.0, "transformers drops nothing there in this type");
    }
  }
  const bool drops = rates != DropoutRates(0.0);
  if (drops) {
    model.dropout_rates = rates;
  }
  if (drops != has_dropout(model)) {
    model.dropout = drops;
  }
}

}  // namespace ptdp::huggingface
