#include "planner/export/trainers/model_support.h"

#include "planner/export/model_numerics.h"
#include "planner/export/refusals.h"

namespace ptdp {

std::vector<ExportRefusal> model_refusals(const Plan& plan, const ModelSupport& support) {
  const TransformerConfig& model = plan.scenario.job.model;
  Refusals refusals;
  refusals.add_if(has_experts(model), "num_experts", model.num_experts, "0, a dense model");
  refusals.add_if(has_latent_attention(model), "kv_lora_rank", model.kv_lora_rank, "0");
  refusals.add_if(model.mtp_num_layers > 0, "mtp_num_layers", model.mtp_num_layers, "0");
  refusals.add_if(!support.wide_heads && !has_latent_attention(model) &&
                      query_width(model) != model.hidden_size,
                  "kv_channels", model.kv_channels, "hidden_size / num_attention_heads");
  refusals.add_if(!support.plain_mlp && !model.gated_linear_unit, "gated_linear_unit", "false",
                  "true");
  refusals.add_if(
      !model.gated_linear_unit && activation_of(model) != Activation::kTanhGelu &&
          activation_of(model) != Activation::kGelu,
      "activation_func",
      std::string(name_of(activation_of(model), NamedValues<Activation>(kActivationNames))),
      "gelu or a gated MLP");
  refusals.add_if(!support.layer_norm && model.normalization == Normalization::kLayerNorm,
                  "normalization", "layer-norm", "rms-norm");
  refusals.add_if(!support.learned_positions &&
                      model.position_embedding != PositionEmbedding::kRope &&
                      !has_untold_positions(model),  // which numerics_refusals() refuses
                  "position_embedding",
                  std::string(name_of(model.position_embedding,
                                      NamedValues<PositionEmbedding>(kPositionEmbeddingNames))),
                  "rope");
  refusals.add_if(!support.all_biases && model.add_bias_linear, "add_bias_linear", "true", "false");
  refusals.add_if(!model.add_bias_linear && model.add_qkv_bias, "add_qkv_bias", "true", "false");
  refusals.add_if(!model.add_bias_linear && (model.add_projection_bias || model.add_mlp_bias),
                  "add_projection_bias or add_mlp_bias", "true", "false");
  refusals.add_if(model.qk_layernorm, "qk_layernorm", "true", "false");
  refusals.add_if(has_window(model), "window_size", model.window_size, "0");
  refusals.add_if(!support.dropout && has_dropout(model), "dropout", "true", "false");
  refusals.add_if(!model.scale_attn_weights, "scale_attn_weights", "false", "true");
  refusals.add_if(model.scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx", "true",
                  "false");
  return refusals.take();
}

std::vector<std::string> uncovered_parts(const Plan& plan) {
  if (plan.scenario.stack.cuda_graphs == CudaGraphs::kNone) {
    return {};
  }
  return {"The plan counts CUDA graphs, which are not switched on here."};
}

}  // namespace ptdp
