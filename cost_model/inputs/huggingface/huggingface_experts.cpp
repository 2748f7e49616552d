// Reads what a Hugging Face configuration says of experts: number, widths, router and layers.
#include <array>
#include <string>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp::huggingface {
namespace {

/// Sets which layers have experts as a list says. Throws Error unless they are every n-th from one
/// on.
void read_listed_layers(const Keys& keys, TransformerConfig& model) {
  std::vector<int> found;
  keys.reader().counts("moe_layers", found, 0, kMostModelLayers);
  if (found.empty()) {
    keys.refuse("moe_layers", "expected layers with experts, which this type has");
  }
  model.first_dense_layers = found.front();
  model.moe_layer_freq = found.size() > 1 ? found[1] - found[0] : model.num_layers;
  bool follows =
      model.moe_layer_freq >= 1 && std::ssize(found) == num_expert_layers(model, model.num_layers);
  for (std::size_t i = 1; i < found.size(); ++i) {
    follows = follows && found[i] - found[i - 1] == model.moe_layer_freq;
  }
  if (!follows) {
    keys.refuse("moe_layers", "expected every n-th layer from one on");
  }
}

/// Reads which layers of Llama 4 have experts: a list, or else every n-th layer.
void read_layers_of_llama4(const Keys& keys, TransformerConfig& model) {
  const int step = keys.size_or("interleave_moe_layer_step", 1, kMostModelLayers);
  if (keys.has("moe_layers")) {
    read_listed_layers(keys, model);
  } else {
    model.moe_layer_freq = step;
    model.first_dense_layers = step - 1;
  }
}

/// Reads which layers have experts.
void read_expert_layers(const Keys& keys, ModelType type, TransformerConfig& model) {
  if (type == ModelType::kLlama4) {
    read_layers_of_llama4(keys, model);
    return;
  }
  if (is_one_of(type, {ModelType::kDeepseekV2, ModelType::kDeepseekV3, ModelType::kGlm4Moe})) {
    // Layer i has experts if i ≥ k and i is a multiple of the frequency.
    const int usual = type == ModelType::kDeepseekV3 ? 3 : type == ModelType::kGlm4Moe ? 1 : 0;
    const int dense = keys.count_or("first_k_dense_replace", usual, kMostModelLayers);
    const int every = keys.size_or("moe_layer_freq", 1, kMostModelLayers);
    model.moe_layer_freq = every;
    model.first_dense_layers = (dense + every - 1) / every * every;
    return;
  }
  if (!is_one_of(type, {ModelType::kQwen2Moe, ModelType::kQwen3Moe})) {
    return;
  }
  // Layer i has experts if i + 1 is a multiple of the step and i is not in the list.
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

/// Reads how a router of DeepSeek's kind chooses experts: by which method, and from which groups of
/// experts, of which a token visits only some.
void read_router(const Keys& keys, ModelType type, TransformerConfig& model) {
  const bool is_v3 = type == ModelType::kDeepseekV3;
  const bool has_numbers = is_v3 || type == ModelType::kGlm4Moe;
  std::string method = has_numbers ? "noaux_tc" : "greedy";
  if (keys.has("topk_method")) {
    keys.reader().text("topk_method", method);
    if (method != "noaux_tc" && method != "greedy" && method != "group_limited_greedy") {
      keys.refuse("topk_method",
                  "expected greedy, group_limited_greedy or noaux_tc, got " + in_quotes(method));
    }
  }
  model.moe_router_enable_expert_bias = has_numbers && method == "noaux_tc";
  const int groups = keys.count_or("n_group", is_v3 ? 8 : 1, kMostExperts);
  const int visited = keys.count_or("topk_group", is_v3 ? 4 : 1, kMostExperts);
  if (method != "greedy" && groups > 1) {
    model.moe_router_num_groups = groups;
    model.moe_router_group_topk = visited;
  }
}

/// Default numbers of a type's experts, for keys that its file leaves out.
struct UsualExperts {
  int experts = 0;  ///< Experts per layer; 0: the type has none.
  int chosen = 0;   ///< Experts that each token visits; 0: no default.
  int width = 0;    ///< Width of an expert's MLP; 0: no default.
};
UsualExperts usual_experts(ModelType type) {
  switch (type) {
    case ModelType::kMixtral:
    case ModelType::kGraniteMoe:
      return {.experts = 8, .chosen = 2};
    case ModelType::kOlmoe:
      return {.experts = 64, .chosen = 8};
    case ModelType::kMiniMaxM2:
      return {.experts = 256, .chosen = 8};
    case ModelType::kLlama4:
      return {.experts = 16, .chosen = 1};
    case ModelType::kGlm4Moe:
      return {.experts = 128, .chosen = 8, .width = 1408};
    case ModelType::kQwen2Moe:
      return {.experts = 60, .chosen = 4, .width = 1408};
    case ModelType::kQwen3Moe:
      return {.experts = 128, .chosen = 8, .width = 768};
    case ModelType::kGptOss:
      return {.experts = 128, .chosen = 4};
    case ModelType::kDeepseekV2:
      return {.experts = 64, .width = 1407};
    case ModelType::kDeepseekV3:
      return {.experts = 256, .chosen = 8, .width = 2048};
    default:
      return {};
  }
}

/// Sets the experts of types whose MLP is an expert by its width. Llama 4 has a shared expert as
/// wide, and layers without experts of another width.
void read_like_mixtral(const Keys& keys, ModelType type, const UsualExperts& usual,
                       TransformerConfig& model) {
  model.num_experts = keys.size_or(keys.spelling_of({"num_local_experts", "num_experts"}),
                                   usual.experts, kMostExperts);
  model.moe_ffn_hidden_size = model.ffn_hidden_size;
  if (type == ModelType::kLlama4) {
    model.moe_shared_expert_intermediate_size = model.ffn_hidden_size;
    model.ffn_hidden_size = keys.size("intermediate_size_mlp");
  }
  if (type == ModelType::kOlmoe) {  // which is read for its costs
    keys.pass_over(std::array{"clip_qkv"});
  }
}

/// Sets MiniMax-M2's numbers that balance experts, and its modules that predict more tokens.
void read_minimax(const Keys& keys, TransformerConfig& model) {
  model.moe_router_enable_expert_bias = keys.flag_or("use_routing_bias", true);
  keys.expect_number("shared_intermediate_size", 0.0, "all experts are routed");
  std::vector<int> attention;
  if (keys.has("attn_type_list")) {
    keys.reader().counts("attn_type_list", attention, 0, 1);
  }
  if (std::count(attention.begin(), attention.end(), 0) > 0) {
    keys.refuse("attn_type_list",
                "expected 1 for each layer: lightning attention is not described");
  }
  if (keys.flag_or("use_mtp", false)) {
    keys.expect_number("mtp_transformer_layers", 1.0, "a module has one layer");
    model.mtp_num_layers = keys.count_or("num_mtp_modules", 0, kMostModelLayers);
  }
  keys.pass_over(std::array{"attn_window_size", "mlp_intermediate_size", "mtp_transformer_layers",
                            "num_mtp_modules", "qk_norm_type", "shared_moe_mode"});
}

}  // namespace

void read_experts(const Keys& keys, ModelType type, TransformerConfig& model) {
  const UsualExperts usual = usual_experts(type);
  switch (type) {
    case ModelType::kGptOss:
      model.moe_router_bias = true;
      keys.pass_over(std::array{"experts_per_token", "initial_context_length"});
      [[fallthrough]];
    case ModelType::kMixtral:
    case ModelType::kGraniteMoe:
    case ModelType::kOlmoe:
    case ModelType::kMiniMaxM2:
    case ModelType::kLlama4:
      read_like_mixtral(keys, type, usual, model);
      break;
    case ModelType::kQwen2Moe:
    case ModelType::kQwen3Moe:
      // Files of Qwen3-Coder have these keys of Qwen2-MoE, with values that mean nothing.
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
    case ModelType::kDeepseekV3:
    case ModelType::kGlm4Moe: {
      const std::string spelling =
          keys.spelling_of({"n_routed_experts", "num_local_experts", "num_experts"});
      model.num_experts = keys.nullable(spelling, usual.experts, kMostExperts);
      if (model.num_experts == 0) {  // a dense model of their kind
        keys.pass_over(std::array{"moe_intermediate_size", "n_shared_experts",
                                  "num_experts_per_tok", "first_k_dense_replace", "moe_layer_freq",
                                  "topk_method", "n_group", "topk_group"});
        return;
      }
      model.moe_ffn_hidden_size = keys.size_or("moe_intermediate_size", usual.width);
      model.moe_shared_expert_intermediate_size =
          keys.nullable("n_shared_experts", type == ModelType::kDeepseekV2 ? 2 : 1,
                        kWidestMatrix / model.moe_ffn_hidden_size) *
          model.moe_ffn_hidden_size;
      read_router(keys, type, model);
      break;
    }
    default:
      return;
  }
  model.moe_router_topk = usual.chosen == 0
                              ? keys.size("num_experts_per_tok", kMostExperts)
                              : keys.size_or("num_experts_per_tok", usual.chosen, kMostExperts);
  if (type == ModelType::kMiniMaxM2) {
    read_minimax(keys, model);
  }
  if (type == ModelType::kQwen2Moe) {
    model.moe_shared_expert_intermediate_size =
        keys.size_or("shared_expert_intermediate_size", 5632);
    model.moe_shared_expert_gate = true;
  }
  read_expert_layers(keys, type, model);
}

}  // namespace ptdp::huggingface
