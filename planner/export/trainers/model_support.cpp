#include "planner/export/trainers/model_support.h"

namespace ptdp {

std::vector<ExportRefusal> model_refusals(const Plan& plan, const ModelSupport& support) {
  const TransformerConfig& model = plan.scenario.job.model;
  std::vector<ExportRefusal> refusals;
  const auto refuse = [&](bool is_so, std::string field, std::string found, std::string instead) {
    if (is_so) {
      refusals.push_back({std::move(field), std::move(found), std::move(instead)});
    }
  };
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  refuse(has_experts(model), "num_experts", number(model.num_experts), "0, a dense model");
  refuse(has_latent_attention(model), "kv_lora_rank", number(model.kv_lora_rank), "0");
  refuse(model.mtp_num_layers > 0, "mtp_num_layers", number(model.mtp_num_layers), "0");
  refuse(!support.wide_heads && !has_latent_attention(model) &&
             query_width(model) != model.hidden_size,
         "kv_channels", number(model.kv_channels), "hidden_size / num_attention_heads");
  refuse(!support.plain_mlp && !model.gated_linear_unit, "gated_linear_unit", "false", "true");
  refuse(!model.gated_linear_unit && model.activation_func != Activation::kTanhGelu &&
             model.activation_func != Activation::kGelu,
         "activation_func",
         std::string(name_of(model.activation_func, NamedValues<Activation>(kActivationNames))),
         "gelu or a gated MLP");
  refuse(!support.layer_norm && model.normalization == Normalization::kLayerNorm, "normalization",
         "layer-norm", "rms-norm");
  refuse(!support.learned_positions && model.position_embedding != PositionEmbedding::kRope,
         "position_embedding",
         std::string(name_of(model.position_embedding,
                             NamedValues<PositionEmbedding>(kPositionEmbeddingNames))),
         "rope");
  refuse(!support.all_biases && model.add_bias_linear, "add_bias_linear", "true", "false");
  refuse(!support.qkv_bias && !model.add_bias_linear && model.add_qkv_bias, "add_qkv_bias", "true",
         "false");
  refuse(!model.add_bias_linear && (model.add_projection_bias || model.add_mlp_bias),
         "add_projection_bias or add_mlp_bias", "true", "false");
  refuse(!support.qk_layernorm && model.qk_layernorm, "qk_layernorm", "true", "false");
  refuse(has_window(model) && (!support.window || model.first_window_layer > 0), "window_size",
         number(model.window_size), support.window ? "a window in all layers" : "0");
  refuse(!support.dropout && has_dropout(model), "dropout", "true", "false");
  refuse(!model.scale_attn_weights, "scale_attn_weights", "false", "true");
  refuse(model.scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx", "true", "false");
  return refusals;
}

std::vector<std::string> uncovered_parts(const Plan& plan) {
  if (plan.scenario.stack.cuda_graphs == CudaGraphs::kNone) {
    return {};
  }
  return {"The plan counts CUDA graphs, which are not switched on here."};
}

}  // namespace ptdp
