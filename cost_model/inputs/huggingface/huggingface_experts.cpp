// Reads what a Hugging Face configuration says of experts: number, widths, router and layers.
#include <array>
#include <string>
#include <vector>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/text/in_quotes.h"

namespace ptdp::huggingface {
namespace {

/// Reads which layers have experts.
void read_expert_layers(const Keys& keys, ModelType type, TransformerConfig& model) {
  if (is_one_of(type, {ModelType::kDeepseekV2, ModelType::kDeepseekV3})) {
    // Layer i has experts if i ≥ k and i is a multiple of the frequency.
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

/// Reads how DeepSeek's router chooses experts: by which method, and from which groups of experts,
/// of which a token visits only some.
void read_router(const Keys& keys, ModelType type, TransformerConfig& model) {
  const bool is_v3 = type == ModelType::kDeepseekV3;
  std::string method = is_v3 ? "noaux_tc" : "greedy";
  if (keys.has("topk_method")) {
    keys.reader().text("topk_method", method);
    if (method != "noaux_tc" && method != "greedy" && method != "group_limited_greedy") {
      keys.refuse("topk_method",
                  "expected greedy, group_limited_greedy or noaux_tc, got " + in_quotes(method));
    }
  }
  model.moe_router_enable_expert_bias = is_v3 && method == "noaux_tc";
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
      return {.experts = 8, .chosen = 2};
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

}  // namespace

void read_experts(const Keys& keys, ModelType type, TransformerConfig& model) {
  const UsualExperts usual = usual_experts(type);
  switch (type) {
    case ModelType::kGptOss:
      model.moe_router_bias = true;
      keys.pass_over(std::array{"experts_per_token", "initial_context_length"});
      [[fallthrough]];
    case ModelType::kMixtral:
      model.num_experts = keys.size_or("num_local_experts", usual.experts, kMostExperts);
      model.moe_ffn_hidden_size = model.ffn_hidden_size;
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
    case ModelType::kDeepseekV3: {
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
          keys.nullable("n_shared_experts", type == ModelType::kDeepseekV3 ? 1 : 2,
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
  if (type == ModelType::kQwen2Moe) {
    model.moe_shared_expert_intermediate_size =
        keys.size_or("shared_expert_intermediate_size", 5632);
    model.moe_shared_expert_gate = true;
  }
  read_expert_layers(keys, type, model);
}

}  // namespace ptdp::huggingface
