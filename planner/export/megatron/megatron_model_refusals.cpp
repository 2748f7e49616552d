// What of a plan's model no flag of Megatron-LM expresses.
#include <fmt/format.h>

#include "planner/export/megatron/megatron_refusals.h"
#include "planner/export/model_numerics.h"
#include "planner/export/refusals.h"

namespace ptdp {

std::vector<ExportRefusal> megatron_model_refusals(const Plan& plan) {
  const TransformerConfig& model = plan.scenario.job.model;
  Refusals refusals;
  const bool is_known = model.gated_linear_unit || activation_of(model) == Activation::kTanhGelu ||
                        activation_of(model) == Activation::kGelu ||
                        activation_of(model) == Activation::kSquaredRelu;
  refusals.add_if(
      !is_known, "activation_func",
      std::string(name_of(activation_of(model), NamedValues<Activation>(kActivationNames))),
      "gelu, relu2 or a gated MLP");
  refusals.add_if(!model.add_bias_linear && (model.add_projection_bias || model.add_mlp_bias),
                  "add_projection_bias or add_mlp_bias", "true",
                  "biases everywhere, of QKV only, or none");
  refusals.add_if(model.scale_attn_by_inverse_layer_idx, "scale_attn_by_inverse_layer_idx", "true",
                  "false");
  refusals.add_if(!model.scale_attn_weights, "scale_attn_weights", "false", "true");
  const DropoutRates dropout = dropout_rates(model);
  refusals.add_if(dropout.embedding != dropout.hidden, "dropout_rates.embedding",
                  fmt::format("{}", dropout.embedding),
                  fmt::format("the rate of hidden layers, {}", dropout.hidden));
  refusals.add_if(
      model.mtp_num_layers > 0 && model.position_embedding == PositionEmbedding::kLearned,
      "position_embedding", "learned", "rope or none where more tokens are predicted");
  refusals.add(numerics_refusals(model, {.rotary_base = true,
                                         .rotary_percent = true,
                                         .linear_scaling = true,
                                         .llama3_scaling = true,
                                         .yarn_scaling = true,
                                         .zero_centered_gamma = true,
                                         .skipped_windows = true,
                                         .query_pre_attn_scalar = has_latent_attention(model)}));
  refusals.add(megatron_position_refusals(model));
  return refusals.take();
}

}  // namespace ptdp
