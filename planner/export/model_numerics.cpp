#include "planner/export/model_numerics.h"

#include "planner/export/refusals.h"

namespace ptdp {
namespace {

bool is_told(RopeScaling scaling, const NumericsSupport& support) {
  switch (scaling) {
    case RopeScaling::kNone:
      return true;
    case RopeScaling::kLinear:
      return support.linear_scaling;
    case RopeScaling::kLlama3:
      return support.llama3_scaling;
    case RopeScaling::kYarn:
      return support.yarn_scaling;
    case RopeScaling::kLongRope:
      return false;
  }
  return false;
}

/// Adds refusals of angles of rotary positions.
void add_angles(const RotaryEmbedding& rotary, const NumericsSupport& support, Refusals& refusals) {
  const RotaryEmbedding usual;
  refusals.add_if(!support.rotary_base && rotary.base != usual.base, "rotary_base", rotary.base,
                  "10000");
  refusals.add_if(!support.rotary_percent && rotary.percent != usual.percent, "rotary_percent",
                  rotary.percent, "1");
  refusals.add_if(!is_told(rotary.scaling, support), "rope_scaling",
                  std::string(name_of(rotary.scaling, NamedValues<RopeScaling>(kRopeScalingNames))),
                  "none");
  refusals.add_if(rotary.interleaved, "rotary_interleaved", "true", "false");
  refusals.add_if(rotary.window_base != 0.0, "rotary_window_base", rotary.window_base,
                  "one base in all layers");
  refusals.add_if(rotary.no_rope_freq != 0, "no_rope_freq", rotary.no_rope_freq,
                  "rotary positions in all layers");
}

/// Adds refusals of positions and norms that no framework is told of.
void add_structure(const TransformerConfig& model, Refusals& refusals) {
  refusals.add_if(has_untold_positions(model), "position_embedding",
                  std::string(name_of(model.position_embedding,
                                      NamedValues<PositionEmbedding>(kPositionEmbeddingNames))),
                  "learned, rope or none");
  refusals.add_if(learned_positions(model) != model.seq_length, "max_position_embeddings",
                  model.max_position_embeddings, "seq_length");
  refusals.add_if(!model.layernorm_bias, "layernorm_bias", "false", "true");
  refusals.add_if(model.shared_residual_norm, "shared_residual_norm", "true", "false");
  refusals.add_if(model.embedding_layernorm, "embedding_layernorm", "true", "false");
  refusals.add_if(has_window(model) && model.chunked_attention, "chunked_attention", "true",
                  "false");
  refusals.add_if(
      model.qk_layernorm && model.qk_layernorm_width != QkNormWidth::kHead, "qk_layernorm_width",
      std::string(name_of(model.qk_layernorm_width, NamedValues<QkNormWidth>(kQkNormWidthNames))),
      "head");
}

}  // namespace

bool has_untold_positions(const TransformerConfig& model) {
  return model.position_embedding == PositionEmbedding::kAlibi || has_relative_positions(model);
}

std::vector<ExportRefusal> numerics_refusals(const TransformerConfig& model,
                                             const NumericsSupport& support) {
  Refusals refusals;
  if (model.position_embedding == PositionEmbedding::kRope) {
    add_angles(model.rotary, support, refusals);
  }
  refusals.add_if(
      model.gated_linear_unit && activation_of(model) != Activation::kSilu, "activation_func",
      std::string(name_of(activation_of(model), NamedValues<Activation>(kActivationNames))),
      "silu in a gated MLP");
  refusals.add_if(!support.zero_centered_gamma && model.layernorm_zero_centered_gamma,
                  "layernorm_zero_centered_gamma", "true", "false");
  refusals.add_if(!support.query_pre_attn_scalar && model.query_pre_attn_scalar != 0.0 &&
                      model.query_pre_attn_scalar != query_head_width(model),
                  "query_pre_attn_scalar", model.query_pre_attn_scalar, "the width of a head");
  refusals.add_if(model.attn_logit_softcapping != 0.0, "attn_logit_softcapping",
                  model.attn_logit_softcapping, "no cap");
  refusals.add_if(model.final_logit_softcapping != 0.0, "final_logit_softcapping",
                  model.final_logit_softcapping, "no cap");
  refusals.add_if(model.embedding_multiplier != 1.0, "embedding_multiplier",
                  model.embedding_multiplier, "1");
  refusals.add_if(model.logits_multiplier != 1.0, "logits_multiplier", model.logits_multiplier,
                  "1");
  refusals.add_if(model.residual_multiplier != 1.0, "residual_multiplier",
                  model.residual_multiplier, "1");
  refusals.add_if(model.parallel_residual, "parallel_residual", "true", "false");
  refusals.add_if(model.activation_func_clamp_value != 0.0, "activation_func_clamp_value",
                  model.activation_func_clamp_value, "no bound");
  refusals.add_if(model.glu_linear_offset != 0.0, "glu_linear_offset", model.glu_linear_offset,
                  "0");
  refusals.add_if(model.attention_sinks, "attention_sinks", "true", "false");
  refusals.add_if(model.moe_router_bias, "moe_router_bias", "true", "false");
  refusals.add_if(
      model.norm_placement != NormPlacement::kBefore, "norm_placement",
      std::string(name_of(model.norm_placement, NamedValues<NormPlacement>(kNormPlacementNames))),
      "before");
  add_structure(model, refusals);
  refusals.add_if(!support.skipped_windows && has_window(model) && model.window_attn_skip_freq > 0,
                  "window_attn_skip_freq", model.window_attn_skip_freq, "a window in all layers");
  return refusals.take();
}

}  // namespace ptdp
