#include "cost_model/inputs/huggingface/huggingface_config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_keys.h"

namespace ptdp {
namespace {

using huggingface::is_one_of;
using huggingface::Keys;
using huggingface::ModelType;

/// Reads the keys of a gpt2 that decide the result of training but not its cost.
void read_numerics(const Keys& keys, TransformerConfig& model) {
  model.layernorm_epsilon =
      keys.number_or("layer_norm_epsilon", model.layernorm_epsilon, kEpsilonRange);
  model.init_method_std =
      keys.number_or("initializer_range", model.init_method_std, kDeviationRange);
  if (keys.has("activation_function")) {
    keys.reader().choice("activation_function", model.activation_func.emplace(),
                         NamedValues<Activation>(kActivationNames));
  }
  model.scale_attn_weights = keys.flag_or("scale_attn_weights", model.scale_attn_weights);
  model.scale_attn_by_inverse_layer_idx =
      keys.flag_or("scale_attn_by_inverse_layer_idx", model.scale_attn_by_inverse_layer_idx);
}

TransformerConfig read_gpt2(const Keys& keys) {
  TransformerConfig model = {.num_layers = keys.size("n_layer", kMostModelLayers),
                             .hidden_size = keys.size("n_embd"),
                             .num_attention_heads = keys.size("n_head"),
                             .ffn_hidden_size = keys.size_or("n_inner", 0),
                             .vocab_size = keys.size("vocab_size"),
                             .seq_length = keys.size_or("n_positions", 1024, kLongestSequence),
                             .untied_embeddings = !keys.flag_or("tie_word_embeddings", true)};
  read_numerics(keys, model);
  return model;
}

/// Returns the longest sequence [tokens] of a type whose file does not say it.
int usual_sequence(ModelType type) {
  switch (type) {
    case ModelType::kMistral:
    case ModelType::kMixtral:
      return 131072;
    case ModelType::kQwen2:
    case ModelType::kQwen2Moe:
    case ModelType::kQwen3:
    case ModelType::kQwen3Moe:
      return 32768;
    case ModelType::kDeepseekV3:
    case ModelType::kNemotron:
      return 4096;
    default:
      return 2048;
  }
}

/// Reads the sizes, whose keys all types but gpt2 spell alike.
TransformerConfig read_sizes(const Keys& keys, ModelType type) {
  return {
      .num_layers = keys.size("num_hidden_layers", kMostModelLayers),
      .hidden_size = keys.size("hidden_size"),
      .num_attention_heads = keys.size("num_attention_heads"),
      .ffn_hidden_size = keys.size("intermediate_size"),
      .vocab_size = keys.size("vocab_size"),
      .seq_length = keys.size_or("max_position_embeddings", usual_sequence(type), kLongestSequence),
      .untied_embeddings = !keys.flag_or("tie_word_embeddings", false),
      .position_embedding = PositionEmbedding::kRope};
}

void read_biases(const Keys& keys, ModelType type, TransformerConfig& model) {
  model.add_bias_linear = false;
  switch (type) {
    case ModelType::kGpt2:
      model.add_bias_linear = true;
      return;
    case ModelType::kGptNeox: {
      const bool has_attention_bias = keys.flag_or("attention_bias", true);
      model.add_bias_linear = has_attention_bias;
      model.add_mlp_bias = !has_attention_bias;
      return;
    }
    case ModelType::kLlama:
    case ModelType::kNemotron:
    case ModelType::kDeepseekV2:
      model.add_mlp_bias = keys.flag_or("mlp_bias", false);
      break;
    case ModelType::kQwen2:
      model.add_qkv_bias = true;
      return;
    case ModelType::kQwen2Moe:
      model.add_qkv_bias = keys.flag_or("qkv_bias", true);
      return;
    case ModelType::kMistral:
    case ModelType::kMixtral:
      return;
    case ModelType::kQwen3:
    case ModelType::kQwen3Moe:
    case ModelType::kDeepseekV3:
      break;
  }
  model.add_qkv_bias = keys.flag_or("attention_bias", false);
  model.add_projection_bias = model.add_qkv_bias;
  if (model.add_qkv_bias && model.add_mlp_bias) {
    model.add_bias_linear = true;
    model.add_qkv_bias = model.add_projection_bias = model.add_mlp_bias = false;
  }
}

/// Returns the key-value heads of a type whose file does not say them; 0: as many as heads, which
/// is also what null means.
int usual_groups(ModelType type) {
  switch (type) {
    case ModelType::kMistral:
    case ModelType::kMixtral:
      return 8;
    case ModelType::kQwen2:
    case ModelType::kQwen3:
      return 32;
    case ModelType::kQwen2Moe:
      return 16;
    case ModelType::kQwen3Moe:
      return 4;
    default:
      return 0;
  }
}

void read_heads(const Keys& keys, ModelType type, TransformerConfig& model) {
  if (is_one_of(type, {ModelType::kDeepseekV2, ModelType::kDeepseekV3})) {
    // transformers writes these keys too; they follow from the widths below.
    keys.pass_over(std::array{"num_key_value_heads", "head_dim", "qk_head_dim"});
    model.q_lora_rank = keys.nullable("q_lora_rank", 1536);
    model.kv_lora_rank = keys.size_or("kv_lora_rank", 512);
    model.qk_head_dim = keys.size_or("qk_nope_head_dim", 128);
    model.qk_pos_emb_head_dim = keys.size_or("qk_rope_head_dim", 64);
    model.v_head_dim = keys.size_or("v_head_dim", 128);
    return;
  }
  if (is_one_of(type, {ModelType::kGpt2, ModelType::kGptNeox})) {
    return;
  }
  model.num_query_groups = keys.size_or(
      "num_key_value_heads", keys.reader().has("num_key_value_heads") ? 0 : usual_groups(type));
  constexpr int qwen3_head = 128;
  model.kv_channels = keys.size_or("head_dim", type == ModelType::kQwen3 ? qwen3_head : 0);
  if (type == ModelType::kNemotron) {  // exports of NeMo write Megatron's name, too
    const int exported = keys.size_or("kv_channels", model.kv_channels);
    if (model.kv_channels != 0 && exported != model.kv_channels) {
      keys.refuse("kv_channels", "expected head_dim, " + std::to_string(model.kv_channels) +
                                     ", got " + std::to_string(exported));
    }
    model.kv_channels = exported;
  }
  model.qk_layernorm = is_one_of(type, {ModelType::kQwen3, ModelType::kQwen3Moe});
}

/// Returns the first layer with a window, from the list "layer_types" of what each layer attends
/// to; `num_layers` if none has one. Throws Error unless all layers behind have it too.
int first_window_layer(const Keys& keys, int num_layers) {
  std::vector<std::string> types;
  keys.reader().texts("layer_types", types);
  if (std::ssize(types) != num_layers) {
    keys.refuse("layer_types", "expected " + std::to_string(num_layers) + " layers, got " +
                                   std::to_string(types.size()));
  }
  const auto first = std::find(types.begin(), types.end(), "sliding_attention");
  const auto is = [](const char* name) {
    return [name](const std::string& type) { return type == name; };
  };
  if (!std::all_of(types.begin(), first, is("full_attention")) ||
      !std::all_of(first, types.end(), is("sliding_attention"))) {
    keys.refuse("layer_types",
                "expected full_attention in the first layers and sliding_attention in all behind, "
                "if any");
  }
  return static_cast<int>(first - types.begin());
}

void read_window(const Keys& keys, ModelType type, TransformerConfig& model) {
  constexpr int usual_window = 4096;
  constexpr int usual_first_layer = 28;  // of Qwen
  const bool is_qwen = is_one_of(
      type, {ModelType::kQwen2, ModelType::kQwen2Moe, ModelType::kQwen3, ModelType::kQwen3Moe});
  if (!is_qwen && !is_one_of(type, {ModelType::kMistral, ModelType::kMixtral})) {
    return;
  }
  const bool is_none = keys.reader().has("sliding_window") || type == ModelType::kMixtral;
  const int window = keys.size_or("sliding_window", is_none ? 0 : usual_window, kLongestSequence);
  const bool is_used = !is_qwen || keys.flag_or("use_sliding_window", false);
  const int first = keys.count_or("max_window_layers", usual_first_layer, kMostModelLayers);
  const bool has_types = keys.has("layer_types");
  const int first_type = has_types ? first_window_layer(keys, model.num_layers) : 0;
  if (window == 0 || !is_used) {
    if (has_types && first_type < model.num_layers) {
      keys.refuse("layer_types", "expected full_attention of a model that uses no sliding_window");
    }
    return;
  }
  if (type == ModelType::kQwen2Moe) {
    keys.refuse("use_sliding_window",
                "expected false: versions of transformers differ in which layers of a qwen2_moe "
                "have the window");
  }
  model.window_size = window;
  if (is_one_of(type, {ModelType::kQwen2, ModelType::kQwen3})) {
    model.first_window_layer = has_types ? first_type : first;
  }
  if (model.first_window_layer >= model.num_layers) {
    model.window_size = 0;
    model.first_window_layer = 0;
  }
}

/// Reads the rates of dropout. By default GPT-2's class has 0.1 and the others 0; only GPT-2 has a
/// rate for embeddings.
DropoutRates read_dropout_rates(const Keys& keys, ModelType type) {
  const bool is_gpt2 = type == ModelType::kGpt2;
  const auto rate = [&](const char* of_gpt2, const char* of_others) {
    return keys.number_or(is_gpt2 ? of_gpt2 : of_others, is_gpt2 ? kUsualDropout : 0.0,
                          kDropoutRange);
  };
  DropoutRates rates;
  rates.attention = rate("attn_pdrop", "attention_dropout");
  rates.hidden = rate("resid_pdrop", "hidden_dropout");
  rates.embedding = is_gpt2 ? rate("embd_pdrop", "") : 0.0;
  return rates;
}

void read_dropout(const Keys& keys, ModelType type, TransformerConfig& model) {
  const DropoutRates rates = read_dropout_rates(keys, type);
  const bool drops = rates != DropoutRates(0.0);
  if (drops) {
    model.dropout_rates = rates;
  }
  if (drops != has_dropout(model)) {
    model.dropout = drops;
  }
}

}  // namespace

bool is_huggingface_config(ObjectReader& reader) {
  return !reader.has("schema") && reader.has("model_type");
}

TransformerConfig read_huggingface_config(ObjectReader& reader) {
  const Keys keys(reader);
  ModelType type = ModelType::kGpt2;
  reader.choice("model_type", type, NamedValues<ModelType>(huggingface::kModelTypes));
  TransformerConfig model = type == ModelType::kGpt2 ? read_gpt2(keys) : read_sizes(keys, type);
  if (!is_one_of(type, {ModelType::kGpt2, ModelType::kGptNeox, ModelType::kNemotron})) {
    model.gated_linear_unit = true;
    model.normalization = Normalization::kRmsNorm;
  }
  read_biases(keys, type, model);
  read_heads(keys, type, model);
  read_window(keys, type, model);
  huggingface::read_experts(keys, type, model);
  if (type == ModelType::kDeepseekV3) {
    model.mtp_num_layers = keys.count_or(
        keys.spelling_of({"num_nextn_predict_layers", "num_mtp_layers"}), 0, kMostModelLayers);
  }
  read_dropout(keys, type, model);
  keys.expect("add_cross_attention", false, "a decoder alone");
  keys.expect("is_encoder_decoder", false, "a decoder alone");
  keys.expect("is_causal", true, "a token attends to those before it");
  if (keys.has("pruned_heads")) {
    reader.child("pruned_heads").finish();
  }
  keys.pass_over(kPassedOverKeys);
  reader.finish();
  return resolved(model, reader.place() + ", in Megatron-LM's names");
}

}  // namespace ptdp
