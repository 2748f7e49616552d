// Reads what a Hugging Face configuration says of attention: biases, heads, and windows.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"
#include "cost_model/inputs/layer_kinds.h"

namespace ptdp::huggingface {
namespace {

constexpr bool is_qwen(ModelType type) {
  return type == ModelType::kQwen2 || type == ModelType::kQwen2Moe || type == ModelType::kQwen3 ||
         type == ModelType::kQwen3Moe;
}

/// Returns the rule that layers with windows follow. Throws Error if TransformerConfig has none
/// that they do.
WindowLayers rule_of(const Keys& keys, const std::vector<bool>& has_window) {
  const std::optional<WindowLayers> rule = find_window_layers(has_window);
  if (!rule) {
    keys.refuse("layer_types",
                "expected full_attention in the first layers and sliding_attention in all behind, "
                "if any, but for every n-th layer");
  }
  return *rule;
}

/// Returns which layers the list "layer_types" gives a window.
std::vector<bool> read_layer_types(const Keys& keys, int num_layers) {
  std::vector<std::string> types;
  keys.reader().texts("layer_types", types);
  if (std::ssize(types) != num_layers) {
    keys.refuse("layer_types", "expected " + std::to_string(num_layers) + " layers, got " +
                                   std::to_string(types.size()));
  }
  std::vector<bool> has_window;
  has_window.reserve(types.size());
  for (const std::string& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      keys.refuse("layer_types",
                  "expected full_attention in the first layers and sliding_attention in all "
                  "behind, if any, but for every n-th layer");
    }
    has_window.push_back(type == "sliding_attention");
  }
  return has_window;
}

/// Returns which layers have a window if the file has no list of them.
std::vector<bool> usual_layer_types(ModelType type, int num_layers, int first) {
  std::vector<bool> has_window(num_layers, true);
  for (int i = 0; i < num_layers; ++i) {
    if (type == ModelType::kGemma2 || type == ModelType::kGptOss) {
      has_window[i] = i % 2 == 0;
    } else if (type == ModelType::kQwen2 || type == ModelType::kQwen3) {
      has_window[i] = i >= first;
    }
  }
  return has_window;
}

/// Returns the window of all layers that have one; 0: none has.
int read_window_size(const Keys& keys, ModelType type) {
  const int usual_window = type == ModelType::kGptOss ? 128 : 4096;
  const bool is_usually_none =
      type == ModelType::kMixtral || type == ModelType::kPhi3 || type == ModelType::kStarcoder2;
  const bool is_none = keys.reader().has("sliding_window") || is_usually_none;
  const int window = keys.size_or("sliding_window", is_none ? 0 : usual_window, kLongestSequence);
  return !is_qwen(type) || keys.flag_or("use_sliding_window", false) ? window : 0;
}

}  // namespace

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
    case ModelType::kStarcoder2:
      model.add_bias_linear = keys.flag_or("use_bias", true);
      return;
    case ModelType::kStableLm:
      model.add_qkv_bias = keys.flag_or("use_qkv_bias", false);
      return;
    case ModelType::kGptOss: {
      const bool has_attention_bias = keys.flag_or("attention_bias", true);
      model.add_bias_linear = has_attention_bias;
      model.add_mlp_bias = !has_attention_bias;
      model.attention_sinks = true;
      return;
    }
    case ModelType::kLlama:
    case ModelType::kNemotron:
    case ModelType::kDeepseekV2:
    case ModelType::kGranite:
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
    case ModelType::kPhi3:
      keys.expect("attention_bias", false, "transformers has none in this type");
      return;
    case ModelType::kQwen3:
    case ModelType::kQwen3Moe:
    case ModelType::kDeepseekV3:
    case ModelType::kGemma:
    case ModelType::kGemma2:
    case ModelType::kOlmo2:
      break;
  }
  model.add_qkv_bias = keys.flag_or("attention_bias", false);
  model.add_projection_bias = model.add_qkv_bias;
  if (model.add_qkv_bias && model.add_mlp_bias) {
    model.add_bias_linear = true;
    model.add_qkv_bias = model.add_projection_bias = model.add_mlp_bias = false;
  }
}

void read_heads(const Keys& keys, ModelType type, TransformerConfig& model) {
  const TypeTraits traits = traits_of(type);
  keys.expect("use_qk_norm", traits.qk_layernorm, "what this type always has");
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
      "num_key_value_heads", keys.reader().has("num_key_value_heads") ? 0 : traits.groups);
  if (traits.has_head_key) {
    model.kv_channels = keys.size_or("head_dim", traits.head);
  }
  if (type == ModelType::kNemotron) {  // exports of NeMo write Megatron's name, too
    const int exported = keys.size_or("kv_channels", model.kv_channels);
    if (model.kv_channels != 0 && exported != model.kv_channels) {
      keys.refuse("kv_channels", "expected head_dim, " + std::to_string(model.kv_channels) +
                                     ", got " + std::to_string(exported));
    }
    model.kv_channels = exported;
  }
  model.qk_layernorm = traits.qk_layernorm;
  if (type == ModelType::kOlmo2) {
    model.qk_layernorm_width = QkNormWidth::kAllHeads;
  }
  if (type == ModelType::kStableLm) {
    keys.expect("qk_layernorm", false, "a norm has one weight for all heads");
  }
}

void read_window(const Keys& keys, ModelType type, TransformerConfig& model) {
  constexpr int usual_first_layer = 28;  // of Qwen
  if (!is_qwen(type) &&
      !is_one_of(type, {ModelType::kMistral, ModelType::kMixtral, ModelType::kPhi3,
                        ModelType::kStarcoder2, ModelType::kGemma2, ModelType::kGptOss})) {
    return;
  }
  const int window = read_window_size(keys, type);
  const int first =
      is_qwen(type) ? keys.count_or("max_window_layers", usual_first_layer, kMostModelLayers) : 0;
  const bool has_types = keys.has("layer_types");
  const WindowLayers rule =
      rule_of(keys, has_types ? read_layer_types(keys, model.num_layers)
                              : usual_layer_types(type, model.num_layers, first));
  const bool has_window = rule.first < model.num_layers;
  if (window == 0) {
    if (has_window && (has_types || type == ModelType::kGemma2 || type == ModelType::kGptOss)) {
      keys.refuse(has_types ? "layer_types" : "sliding_window",
                  has_types ? "expected full_attention of a model that uses no sliding_window"
                            : "expected a window, which half of this type's layers have");
    }
    return;
  }
  if (type == ModelType::kQwen2Moe) {
    keys.refuse("use_sliding_window",
                "expected false: versions of transformers differ in which layers of a qwen2_moe "
                "have the window");
  }
  if (is_one_of(type, {ModelType::kMistral, ModelType::kMixtral, ModelType::kPhi3,
                       ModelType::kStarcoder2, ModelType::kQwen3Moe}) &&
      (rule.first != 0 || rule.skip_freq != 0)) {
    keys.refuse("layer_types",
                "expected sliding_attention: all layers of this type have the "
                "window");
  }
  if (has_window) {
    model.window_size = window;
    model.first_window_layer = rule.first;
    model.window_attn_skip_freq = rule.skip_freq;
  }
}

}  // namespace ptdp::huggingface
