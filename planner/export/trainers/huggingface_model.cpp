#include "planner/export/trainers/huggingface_model.h"

#include "cost_model/inputs/huggingface/huggingface_writer.h"

namespace ptdp {
namespace {

HuggingfaceType type_with_layer_norm(const TransformerConfig& model) {
  if (model.position_embedding != PositionEmbedding::kRope) {
    return {"gpt2", "GPT2Block", false};
  }
  if (model.gated_linear_unit) {
    return {"stablelm", "StableLmDecoderLayer", false};
  }
  if (model.layernorm_zero_centered_gamma) {
    return {"nemotron", "NemotronDecoderLayer", false};
  }
  if (model.parallel_residual || model.rotary.percent != 1.0) {
    return {"gpt_neox", "GPTNeoXLayer"};
  }
  return {"starcoder2", "Starcoder2DecoderLayer"};
}

}  // namespace

HuggingfaceType huggingface_type(const TransformerConfig& model) {
  if (model.normalization == Normalization::kLayerNorm) {
    return type_with_layer_norm(model);
  }
  if (model.layernorm_zero_centered_gamma) {
    return model.norm_placement == NormPlacement::kBefore
               ? HuggingfaceType{"gemma", "GemmaDecoderLayer"}
               : HuggingfaceType{"gemma2", "Gemma2DecoderLayer"};
  }
  if (model.norm_placement == NormPlacement::kBehind) {
    return {"olmo2", "Olmo2DecoderLayer"};
  }
  if (model.query_pre_attn_scalar != 0.0 || model.embedding_multiplier != 1.0 ||
      model.logits_multiplier != 1.0 || model.residual_multiplier != 1.0) {
    return {"granite", "GraniteDecoderLayer"};
  }
  if (model.qk_layernorm) {
    return {"qwen3", "Qwen3DecoderLayer"};
  }
  if (model.add_qkv_bias && !model.add_projection_bias) {
    return {"qwen2", "Qwen2DecoderLayer"};
  }
  if (model.rotary.percent != 1.0 || dropout_rates(model).hidden > 0.0) {
    return {"phi3", "Phi3DecoderLayer"};
  }
  return has_window(model) ? HuggingfaceType{"mistral", "MistralDecoderLayer"}
                           : HuggingfaceType{"llama", "LlamaDecoderLayer"};
}

std::vector<ExportRefusal> huggingface_refusals(const TransformerConfig& model) {
  const auto unsaid = unsaid_in_huggingface_config(model, huggingface_type(model).name);
  if (!unsaid) {
    return {};
  }
  return {{unsaid->field, unsaid->found, unsaid->expected}};
}

std::string huggingface_json(const TransformerConfig& model) {
  return huggingface_config(model, huggingface_type(model).name);
}

}  // namespace ptdp
