// Reads which layers of a Hugging Face configuration have windows, and which have positions.
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
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

/// Returns which layers the list "layer_types" gives a window. Layers that have one are called
/// `windowed`.
std::vector<bool> read_layer_types(const Keys& keys, const std::string& windowed, int num_layers) {
  std::vector<std::string> types;
  keys.reader().texts("layer_types", types);
  if (std::ssize(types) != num_layers) {
    keys.refuse("layer_types", "expected " + std::to_string(num_layers) + " layers, got " +
                                   std::to_string(types.size()));
  }
  std::vector<bool> has_window;
  has_window.reserve(types.size());
  for (const std::string& type : types) {
    if (type != "full_attention" && type != windowed) {
      keys.refuse("layer_types", "expected full_attention in the first layers and " + windowed +
                                     " in all behind, if any, but for every n-th layer");
    }
    has_window.push_back(type == windowed);
  }
  return has_window;
}

/// Whether all layers of a type have a window but for every n-th, whose number is a key.
constexpr bool has_pattern(ModelType type) {
  return type == ModelType::kGemma3 || type == ModelType::kCohere2 || type == ModelType::kExaone4;
}

/// Reads n of which every n-th layer lacks the window. A list of layers overrides it.
int read_pattern(const Keys& keys, ModelType type) {
  const std::string key =
      keys.spelling_of({"sliding_window_pattern", "_sliding_window_pattern", "layer_switch"});
  const int usual = type == ModelType::kGemma3 ? 6 : 4;
  const int found = keys.has("layer_types") ? usual : keys.size_or(key, usual, kMostModelLayers);
  keys.pass_over(std::array{"sliding_window_pattern", "_sliding_window_pattern", "layer_switch"});
  return found;
}

/// Returns which layers have a window if the file has no list of them.
std::vector<bool> usual_layer_types(const Keys& keys, ModelType type, int num_layers, int first) {
  std::vector<bool> has_window(num_layers, true);
  const int pattern = has_pattern(type) ? read_pattern(keys, type) : 0;
  for (int i = 0; i < num_layers; ++i) {
    if (pattern > 0) {
      has_window[i] = (i + 1) % pattern != 0;
    } else if (type == ModelType::kGemma2 || type == ModelType::kGptOss) {
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

/// Returns which layers have rotary positions, of a type whose keys say so.
std::vector<bool> read_rope_layers(const Keys& keys, int num_layers) {
  std::vector<int> has_rope;
  if (keys.has("no_rope_layers")) {
    keys.reader().counts("no_rope_layers", has_rope, 0, 1);
  }
  const int interval = keys.size_or("no_rope_layer_interval", 4, kMostModelLayers);
  if (has_rope.empty()) {
    for (int i = 0; i < num_layers; ++i) {
      has_rope.push_back((i + 1) % interval != 0 ? 1 : 0);
    }
  }
  if (std::ssize(has_rope) != num_layers) {
    keys.refuse("no_rope_layers", "expected " + std::to_string(num_layers) + " layers, got " +
                                      std::to_string(has_rope.size()));
  }
  return {has_rope.begin(), has_rope.end()};
}

/// Sets n of which every n-th layer lacks rotary positions.
void set_rope_layers(const Keys& keys, const std::vector<bool>& has_rope,
                     TransformerConfig& model) {
  const std::optional<WindowLayers> rule = find_window_layers(has_rope);
  const bool has_any = rule && rule->first < model.num_layers;
  if (!rule || (has_any && rule->first != 0)) {
    keys.refuse("no_rope_layers", "expected rotary positions in all layers but every n-th");
  }
  model.rotary.no_rope_freq = has_any ? rule->skip_freq : 1;
}

/// Sets which layers of a type have rotary positions. Those of two types have them where they have
/// a window, if any layer has one.
void read_positions_of_layers(const Keys& keys, ModelType type, TransformerConfig& model) {
  if (is_one_of(type, {ModelType::kSmolLm3, ModelType::kLlama4})) {
    set_rope_layers(keys, read_rope_layers(keys, model.num_layers), model);
  } else if (is_one_of(type, {ModelType::kCohere2, ModelType::kExaone4}) && model.window_size > 0) {
    if (model.first_window_layer != 0) {
      keys.refuse("layer_types", "expected sliding_attention in the first layer of this type");
    }
    model.rotary.no_rope_freq = model.window_attn_skip_freq;
  }
}

/// Sets the chunks that most layers of Llama 4 attend within.
void read_chunks(const Keys& keys, TransformerConfig& model) {
  constexpr int usual_chunk = 8192;
  const bool is_none =
      keys.reader().has("attention_chunk_size") && !keys.has("attention_chunk_size");
  const int chunk =
      is_none ? 0 : keys.size_or("attention_chunk_size", usual_chunk, kLongestSequence);
  const WindowLayers rule = rule_of(
      keys, keys.has("layer_types") ? read_layer_types(keys, "chunked_attention", model.num_layers)
                                    : read_rope_layers(keys, model.num_layers));
  if (chunk > 0 && rule.first < model.num_layers) {
    model.window_size = chunk;
    model.first_window_layer = rule.first;
    model.window_attn_skip_freq = rule.skip_freq;
    model.chunked_attention = true;
  }
}

/// Refuses windows of a type all of whose layers attend to all tokens.
void refuse_windows(const Keys& keys, const TransformerConfig& model) {
  keys.expect("use_sliding_window", false, "all layers of this type attend to all tokens");
  keys.pass_over(std::array{"sliding_window", "max_window_layers"});
  if (keys.has("layer_types") &&
      rule_of(keys, read_layer_types(keys, "sliding_attention", model.num_layers)).first <
          model.num_layers) {
    keys.refuse("layer_types", "expected full_attention: use_sliding_window is false");
  }
}

void read_windows_of_layers(const Keys& keys, ModelType type, TransformerConfig& model) {
  constexpr int usual_first_layer = 28;  // of Qwen
  if (type == ModelType::kLlama4) {
    read_chunks(keys, model);
    return;
  }
  if (type == ModelType::kSmolLm3) {
    refuse_windows(keys, model);
    return;
  }
  if (!is_qwen(type) && !has_pattern(type) &&
      !is_one_of(type, {ModelType::kMistral, ModelType::kMixtral, ModelType::kPhi3,
                        ModelType::kStarcoder2, ModelType::kGemma2, ModelType::kGptOss})) {
    return;
  }
  const int window = read_window_size(keys, type);
  const int first =
      is_qwen(type) ? keys.count_or("max_window_layers", usual_first_layer, kMostModelLayers) : 0;
  const bool has_types = keys.has("layer_types");
  const WindowLayers rule =
      rule_of(keys, has_types ? read_layer_types(keys, "sliding_attention", model.num_layers)
                              : usual_layer_types(keys, type, model.num_layers, first));
  const bool has_window = rule.first < model.num_layers;
  if (has_pattern(type) && has_types) {
    static_cast<void>(read_pattern(keys, type));
  }
  if (window == 0) {
    const bool always_has = is_one_of(
        type, {ModelType::kGemma2, ModelType::kGemma3, ModelType::kGptOss, ModelType::kCohere2});
    if (has_window && (has_types || always_has)) {
      keys.refuse(has_types ? "layer_types" : "sliding_window",
                  has_types ? "expected full_attention of a model that uses no sliding_window"
                            : "expected a window, which layers of this type have");
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

}  // namespace

void read_window(const Keys& keys, ModelType type, TransformerConfig& model) {
  read_windows_of_layers(keys, type, model);
  read_positions_of_layers(keys, type, model);
}

}  // namespace ptdp::huggingface
