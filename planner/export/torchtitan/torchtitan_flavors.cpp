// The models that torchtitan ships, by their sizes.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "planner/export/model_numerics.h"
#include "planner/export/torchtitan/torchtitan_model.h"

namespace ptdp {
namespace {

/// A flavor of torchtitan 0.2.2 and its sizes.
struct FlavorSizes {
  TorchtitanFlavor flavor;
  int num_layers = 0;
  int hidden_size = 0;
  int num_attention_heads = 0;
  int num_query_groups = 0;
  int kv_channels = 0;
  int ffn_hidden_size = 0;
  int vocab_size = 0;
  bool untied_embeddings = true;
  int num_experts = 0;
  int moe_router_topk = 0;
  int moe_ffn_hidden_size = 0;
};

/// Source: torchtitan 0.2.2, models/llama3/__init__.py (the width of the MLP from
/// ffn_dim_multiplier and multiple_of, models/llama3/model/model.py) and models/qwen3/__init__.py.
constexpr std::array kFlavors = {
    FlavorSizes{{"llama3", "debugmodel"}, 6, 256, 16, 16, 16, 768, 2048},
    FlavorSizes{{"llama3", "8B"}, 32, 4096, 32, 8, 128, 14336, 128256},
    FlavorSizes{{"llama3", "70B"}, 80, 8192, 64, 8, 128, 28672, 128256},
    FlavorSizes{{"llama3", "405B"}, 126, 16384, 128, 8, 128, 53248, 128256},
    FlavorSizes{{"qwen3", "0.6B"}, 28, 1024, 16, 8, 128, 3072, 151936, false},
    FlavorSizes{{"qwen3", "1.7B"}, 28, 2048, 16, 8, 128, 6144, 151936, false},
    FlavorSizes{{"qwen3", "4B"}, 36, 2560, 32, 8, 128, 9728, 151936, false},
    FlavorSizes{{"qwen3", "8B"}, 36, 4096, 32, 8, 128, 12288, 151936},
    FlavorSizes{{"qwen3", "14B"}, 40, 5120, 40, 8, 128, 17408, 151936},
    FlavorSizes{{"qwen3", "32B"}, 64, 5120, 64, 8, 128, 25600, 151936},
    FlavorSizes{{"qwen3", "30B-A3B"}, 48, 2048, 32, 4, 128, 6144, 151936, true, 128, 8, 768},
    FlavorSizes{{"qwen3", "235B-A22B"}, 94, 4096, 64, 4, 128, 12288, 151936, true, 128, 8, 1536}};

/// Returns whether a model is of the kind that Llama 3 and Qwen 3 are, whatever its sizes.
bool is_of_their_kind(const TransformerConfig& model) {
  const bool has_only_their_parts =
      model.gated_linear_unit && !model.add_bias_linear && !model.add_qkv_bias &&
      !model.add_projection_bias && !model.add_mlp_bias &&
      model.position_embedding == PositionEmbedding::kRope &&
      model.normalization == Normalization::kRmsNorm && !has_dropout(model) &&
      !has_latent_attention(model) && !has_window(model) && model.mtp_num_layers == 0;
  return has_only_their_parts && model.scale_attn_weights &&
         !model.scale_attn_by_inverse_layer_idx &&
         numerics_refusals(model, {.rotary_base = true, .llama3_scaling = true}).empty();
}

/// Returns whether a model's angles are those of a flavor: Llama 3's are stretched by 8 whether the
/// plan's are or not, which a note says.
bool has_angles(const RotaryEmbedding& rotary, bool is_qwen) {
  constexpr double base_of_qwen = 1e6;
  constexpr double base_of_llama = 5e5;
  const RotaryEmbedding stretched = {.base = base_of_llama,
                                     .scaling = RopeScaling::kLlama3,
                                     .factor = 8.0,
                                     .original_seq_length = 8192};
  return is_qwen ? rotary == RotaryEmbedding{.base = base_of_qwen}
                 : rotary == RotaryEmbedding{.base = base_of_llama} || rotary == stretched;
}

bool has_sizes(const TransformerConfig& model, const FlavorSizes& sizes) {
  const bool is_qwen = sizes.flavor.module == "qwen3";
  const bool has_same_experts =
      model.num_experts == sizes.num_experts && model.moe_router_topk == sizes.moe_router_topk &&
      model.moe_shared_expert_intermediate_size == 0 && model.first_dense_layers == 0 &&
      model.moe_layer_freq == 1 && model.moe_expert_capacity_factor == 0.0 &&
      (sizes.num_experts == 0 || model.moe_ffn_hidden_size == sizes.moe_ffn_hidden_size);
  return model.num_layers == sizes.num_layers && model.hidden_size == sizes.hidden_size &&
         model.num_attention_heads == sizes.num_attention_heads &&
         model.num_query_groups == sizes.num_query_groups &&
         model.kv_channels == sizes.kv_channels && model.vocab_size == sizes.vocab_size &&
         (sizes.num_experts > 0 || model.ffn_hidden_size == sizes.ffn_hidden_size) &&
         model.untied_embeddings == sizes.untied_embeddings && model.qk_layernorm == is_qwen &&
         has_angles(model.rotary, is_qwen) && has_same_experts;
}

}  // namespace

std::optional<TorchtitanFlavor> torchtitan_flavor(const TransformerConfig& model) {
  const auto* const found = std::ranges::find_if(
      kFlavors, [&](const FlavorSizes& sizes) { return has_sizes(model, sizes); });
  if (!is_of_their_kind(model) || found == kFlavors.end()) {
    return std::nullopt;
  }
  return found->flavor;
}

std::vector<ExportRefusal> torchtitan_flavor_refusals(const Plan& plan) {
  const std::optional<TorchtitanFlavor> flavor = torchtitan_flavor(plan.scenario.job.model);
  if (!flavor) {
    std::string names;
    for (const FlavorSizes& sizes : kFlavors) {
      names +=
          fmt::format("{}{} {}", names.empty() ? "" : ", ", sizes.flavor.module, sizes.flavor.name);
    }
    return {{"model", plan.scenario.job.model_name,
             "a model with the sizes and rotary angles of " + names}};
  }
  if (flavor->module == "qwen3" && plan.config.pp > 1) {
    return {{"pp", std::to_string(plan.config.pp), "1: torchtitan 0.2.2 does not cut up Qwen 3"}};
  }
  return {};
}

}  // namespace ptdp
