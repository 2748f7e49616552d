#include "cost_model/spec/huggingface_config.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "cost_model/spec/huggingface_keys.h"
#include "cost_model/spec/named_values.h"

namespace ptdp {
namespace {

enum class ModelType : std::uint8_t {
  kGpt2,
  kGptNeox,
  kLlama,
  kMistral,
  kMixtral,
  kQwen2,
  kQwen2Moe,
  kQwen3,
  kQwen3Moe,
  kDeepseekV2,
  kDeepseekV3,
  kNemotron
};
constexpr std::array kModelTypes = {NamedValue<ModelType>{ModelType::kGpt2, "gpt2"},
                                    NamedValue<ModelType>{ModelType::kGptNeox, "gpt_neox"},
                                    NamedValue<ModelType>{ModelType::kLlama, "llama"},
                                    NamedValue<ModelType>{ModelType::kMistral, "mistral"},
                                    NamedValue<ModelType>{ModelType::kMixtral, "mixtral"},
                                    NamedValue<ModelType>{ModelType::kQwen2, "qwen2"},
                                    NamedValue<ModelType>{ModelType::kQwen2Moe, "qwen2_moe"},
                                    NamedValue<ModelType>{ModelType::kQwen3, "qwen3"},
                                    NamedValue<ModelType>{ModelType::kQwen3Moe, "qwen3_moe"},
                                    NamedValue<ModelType>{ModelType::kDeepseekV2, "deepseek_v2"},
                                    NamedValue<ModelType>{ModelType::kDeepseekV3, "deepseek_v3"},
                                    NamedValue<ModelType>{ModelType::kNemotron, "nemotron"}};

bool is_one_of(ModelType type, std::initializer_list<ModelType> types) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

/// Keys by what they are called.
class Keys {
 public:
  explicit Keys(ObjectReader& reader) : reader_(reader) {}

  [[nodiscard]] bool has(const std::string& key) const { return reader_.has_value(key); }
  [[nodiscard]] int size(const std::string& key, std::int64_t most = kWidestMatrix) const {
    int value = 0;
    reader_.count(key, value, 1, most);
    return value;
  }
  [[nodiscard]] int size_or(const std::string& key, int usual,
                            std::int64_t most = kWidestMatrix) const {
    return has(key) ? size(key, most) : usual;
  }
  /// A number, where null is 0 and what is not there is `usual`.
  [[nodiscard]] int nullable(const std::string& key, int usual,
                             std::int64_t most = kWidestMatrix) const {
    if (!reader_.has(key)) {
      return usual;
    }
    return has(key) ? count(key, most) : 0;
  }
  /// A number that may be 0.
  [[nodiscard]] int count(const std::string& key, std::int64_t most = kWidestMatrix) const {
    int value = 0;
    reader_.count(key, value, 0, most);
    return value;
  }
  [[nodiscard]] int count_or(const std::string& key, int usual,
                             std::int64_t most = kWidestMatrix) const {
    return has(key) ? count(key, most) : usual;
  }
  /// For keys that say nothing more.
  template <class Names>
  void pass_over(const Names& names) const {
    for (const char* key : names) {
      static_cast<void>(reader_.has(key));
    }
  }
  [[nodiscard]] bool flag_or(const std::string& key, bool usual) const {
    bool value = usual;
    if (has(key)) {
      reader_.flag(key, value);
    }
    return value;
  }
  /// Of other names for the same the one that is there, or the first.
  [[nodiscard]] std::string spelling_of(std::initializer_list<const char*> names) const {
    const auto* const found = std::find_if(names.begin(), names.end(),
                                           [this](const char* name) { return reader_.has(name); });
    return found == names.end() ? *names.begin() : *found;
  }
  /// Refuses anything but `usual`.
  void expect(const std::string& key, bool usual, const std::string& what) const {
    if (flag_or(key, usual) != usual) {
      refuse(key, "expected " + std::string(usual ? "true" : "false") + ": " + what);
    }
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& why) const {
    throw Error(reader_.place_of(key) + ": " + why);
  }
  [[nodiscard]] ObjectReader& reader() const { return reader_; }

 private:
  ObjectReader& reader_;
};

TransformerConfig read_gpt2(const Keys& keys) {
  return {.num_layers = keys.size("n_layer", kMostModelLayers),
          .hidden_size = keys.size("n_embd"),
          .num_attention_heads = keys.size("n_head"),
          .ffn_hidden_size = keys.size_or("n_inner", 0),
          .vocab_size = keys.size("vocab_size"),
          .seq_length = keys.size_or("n_positions", 1024, kLongestSequence),
          .untied_embeddings = !keys.flag_or("tie_word_embeddings", true)};
}

/// The longest sequence where nothing is said.
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

/// What all types but gpt2 spell alike.
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

/// Key-value heads where nothing is said; 0: as many as heads, as null says.
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
    // What transformers writes beside the widths that these follow from.
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
  // Exports of NeMo write Megatron's name.
  const std::string width =
      type == ModelType::kNemotron ? keys.spelling_of({"kv_channels", "head_dim"}) : "head_dim";
  model.kv_channels = keys.size_or(width, type == ModelType::kQwen3 ? qwen3_head : 0);
  model.qk_layernorm = is_one_of(type, {ModelType::kQwen3, ModelType::kQwen3Moe});
}

/// The first layer with a window out of a list of what each layer attends to.
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
  if (window == 0 || !is_used) {
    return;
  }
  if (type == ModelType::kQwen2Moe) {
    keys.refuse("use_sliding_window",
                "expected false: versions of transformers differ in which layers of a qwen2_moe "
                "have the window");
  }
  model.window_size = window;
  if (is_one_of(type, {ModelType::kQwen2, ModelType::kQwen3})) {
    model.first_window_layer = has_types ? first_window_layer(keys, model.num_layers) : first;
  }
  if (model.first_window_layer >= model.num_layers) {
    model.window_size = 0;
    model.first_window_layer = 0;
  }
}

/// Which layers have experts.
void read_expert_layers(const Keys& keys, ModelType type, TransformerConfig& model) {
  if (is_one_of(type, {ModelType::kDeepseekV2, ModelType::kDeepseekV3})) {
    // i ≥ k and i a multiple of the frequency.
    const int dense = keys.count_or("first_k_dense_replace", type == ModelType::kDeepseekV3 ? 3 : 0,
                                    kMostModelLayers);
    const int every = keys.size_or("moe_layer_freq", 1, kMostModelLayers);
    model.moe_layer_freq = every;
    model.first_dense_layers = (dense + every - 1) / every * every;
    return;
  }
  if (!is_one_of(type, {ModelType::kQwen2Moe, ModelType::kQwen3Moe})) {
    return;
  }
  // i + 1 a multiple of the step, and i not in the list.
  model.moe_layer_freq = keys.size_or("decoder_sparse_step", 1, kMostModelLayers);
  model.first_dense_layers = model.moe_layer_freq - 1;
  std::vector<int> dense;
  if (keys.has("mlp_only_layers")) {
    keys.reader().counts("mlp_only_layers", dense, 0, kMostModelLayers);
  }
  if (dense.empty()) {
    return;
  }
  std::sort(dense.begin(), dense.end());
  if (model.moe_layer_freq != 1 || dense.front() != 0 || dense.back() != std::ssize(dense) - 1) {
    keys.refuse("mlp_only_layers",
                "expected the first layers of a model whose other layers all have experts");
  }
  model.first_dense_layers = static_cast<int>(dense.size());
}

/// Groups of experts, of which a token visits some only.
void read_router_groups(const Keys& keys, const std::string& method, TransformerConfig& model) {
  const int groups = keys.count_or("n_group", 1, kMostExperts);
  const int visited = keys.count_or("topk_group", 1, kMostExperts);
  if (method != "greedy" && groups > 1) {
    model.moe_router_num_groups = groups;
    model.moe_router_group_topk = visited;
  }
}

/// Experts where nothing is said; 0: none, or no default.
struct UsualExperts {
  int experts = 0;
  int chosen = 0;  ///< For each token.
  int width = 0;
};
UsualExperts usual_experts(ModelType type) {
  switch (type) {
    case ModelType::kMixtral:
      return {.experts = 8, .chosen = 2};
    case ModelType::kQwen2Moe:
      return {.experts = 60, .chosen = 4, .width = 1408};
    case ModelType::kQwen3Moe:
      return {.experts = 128, .chosen = 8, .width = 768};
    case ModelType::kDeepseekV2:
      return {.width = 1407};
    case ModelType::kDeepseekV3:
      return {.experts = 256, .chosen = 8, .width = 2048};
    default:
      return {};
  }
}

void read_experts(const Keys& keys, ModelType type, TransformerConfig& model) {
  const UsualExperts usual = usual_experts(type);
  switch (type) {
    case ModelType::kMixtral:
      model.num_experts = keys.size_or("num_local_experts", usual.experts, kMostExperts);
      model.moe_ffn_hidden_size = model.ffn_hidden_size;
      break;
    case ModelType::kQwen2Moe:
    case ModelType::kQwen3Moe:
      // Files of Qwen3-Coder have keys of Qwen2-MoE that stand for nothing.
      if (type == ModelType::kQwen3Moe &&
          (keys.flag_or("qkv_bias", false) ||
           keys.count_or("shared_expert_intermediate_size", 0) != 0)) {
        keys.refuse("qkv_bias and shared_expert_intermediate_size",
                    "expected false and 0 of a qwen3_moe");
      }
      model.num_experts = keys.size_or(keys.spelling_of({"num_experts", "num_local_experts"}),
                                       usual.experts, kMostExperts);
      model.moe_ffn_hidden_size = keys.size_or("moe_intermediate_size", usual.width);
      break;
    case ModelType::kDeepseekV2:
    case ModelType::kDeepseekV3: {
      const std::string spelling =
          keys.spelling_of({"n_routed_experts", "num_local_experts", "num_experts"});
      model.num_experts = keys.nullable(spelling, usual.experts, kMostExperts);
      if (model.num_experts == 0) {  // a dense model of their kind
        keys.pass_over(std::array{"moe_intermediate_size", "n_shared_experts",
                                  "num_experts_per_tok", "first_k_dense_replace", "moe_layer_freq",
                                  "topk_method"});
        return;
      }
      model.moe_ffn_hidden_size = keys.size_or("moe_intermediate_size", usual.width);
      model.moe_shared_expert_intermediate_size =
          keys.nullable("n_shared_experts", type == ModelType::kDeepseekV3 ? 1 : 0,
                        kWidestMatrix / model.moe_ffn_hidden_size) *
          model.moe_ffn_hidden_size;
      std::string method = "noaux_tc";
      if (keys.has("topk_method")) {
        keys.reader().text("topk_method", method);
      }
      model.moe_router_enable_expert_bias = type == ModelType::kDeepseekV3 && method == "noaux_tc";
      read_router_groups(keys, method, model);
      break;
    }
    default:
      return;
  }
  model.moe_router_topk = usual.chosen == 0
                              ? keys.size("num_experts_per_tok", kMostExperts)
                              : keys.size_or("num_experts_per_tok", usual.chosen, kMostExperts);
  if (type == ModelType::kQwen2Moe) {
    model.moe_shared_expert_intermediate_size =
        keys.size_or("shared_expert_intermediate_size", 5632);
    model.moe_shared_expert_gate = true;
  }
  read_expert_layers(keys, type, model);
}

}  // namespace

bool is_huggingface_config(ObjectReader& reader) {
  return !reader.has("schema") && reader.has("model_type");
}

TransformerConfig read_huggingface_config(ObjectReader& reader) {
  const Keys keys(reader);
  ModelType type = ModelType::kGpt2;
  reader.choice("model_type", type, NamedValues<ModelType>(kModelTypes));
  TransformerConfig model = type == ModelType::kGpt2 ? read_gpt2(keys) : read_sizes(keys, type);
  if (!is_one_of(type, {ModelType::kGpt2, ModelType::kGptNeox, ModelType::kNemotron})) {
    model.gated_linear_unit = true;
    model.normalization = Normalization::kRmsNorm;
  }
  read_biases(keys, type, model);
  read_heads(keys, type, model);
  read_window(keys, type, model);
  read_experts(keys, type, model);
  if (type == ModelType::kDeepseekV3) {
    model.mtp_num_layers = keys.count_or(
        keys.spelling_of({"num_nextn_predict_layers", "num_mtp_layers"}), 0, kMostModelLayers);
  }
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
