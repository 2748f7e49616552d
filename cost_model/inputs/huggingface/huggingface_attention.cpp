// Reads what a Hugging Face configuration says of attention: biases, and heads with their norms.
#include <array>
#include <string>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"

namespace ptdp::huggingface {
namespace {

/// Returns how norms of queries and keys of a type reach over heads.
QkNormWidth norm_width(ModelType type) {
  switch (type) {
    case ModelType::kOlmo2:
    case ModelType::kOlmoe:
    case ModelType::kMiniMaxM2:
      return QkNormWidth::kAllHeads;
    case ModelType::kCohere:
      return QkNormWidth::kEachHead;
    case ModelType::kLlama4:
      return QkNormWidth::kWeightless;
    default:
      return QkNormWidth::kHead;
  }
}

}  // namespace

void read_biases(const Keys& keys, ModelType type, TransformerConfig& model) {
  model.add_bias_linear = false;
  switch (type) {
    case ModelType::kGpt2:
    case ModelType::kGptBigCode:
      model.add_bias_linear = true;
      return;
    case ModelType::kGptNeox: {
      const bool has_attention_bias = keys.flag_or("attention_bias", true);
      model.add_bias_linear = has_attention_bias;
      model.add_mlp_bias = !has_attention_bias;
      return;
    }
    case ModelType::kStarcoder2:
    case ModelType::kErnie45:
      model.add_bias_linear = keys.flag_or("use_bias", type == ModelType::kStarcoder2);
      return;
    case ModelType::kStableLm:
      model.add_qkv_bias = keys.flag_or("use_qkv_bias", false);
      return;
    case ModelType::kGptOss: {
      const bool has_attention_bias = keys.flag_or("attention_bias", true);
      model.add_bias_linear = has_attention_bias;
      model.add_mlp_bias = !has_attention_bias;
      model.attention_sinks = true;
      return;
    }
    case ModelType::kLlama:
    case ModelType::kNemotron:
    case ModelType::kDeepseekV2:
    case ModelType::kGranite:
    case ModelType::kSmolLm3:
      model.add_mlp_bias = keys.flag_or("mlp_bias", false);
      break;
    case ModelType::kQwen2:
      model.add_qkv_bias = true;
      return;
    case ModelType::kQwen2Moe:
      model.add_qkv_bias = keys.flag_or("qkv_bias", true);
      return;
    case ModelType::kGlm4:
    case ModelType::kGlm4Moe:
      model.add_qkv_bias = keys.flag_or("attention_bias", type == ModelType::kGlm4);
      return;
    case ModelType::kSeedOss:
      model.add_qkv_bias = keys.flag_or("attention_bias", true);
      model.add_projection_bias = keys.flag_or("attention_out_bias", false);
      model.add_mlp_bias = keys.flag_or("mlp_bias", false);
      return;
    case ModelType::kExaone4:
    case ModelType::kMiniMaxM2:
      keys.expect("attention_bias", false, "transformers has none in this type");
      return;
    case ModelType::kOpt:
    case ModelType::kBloom:
    case ModelType::kMpt:
    case ModelType::kFalcon:
    case ModelType::kDbrx:
      return;  // read_own_spelling() reads them
    case ModelType::kMistral:
    case ModelType::kMixtral:
    case ModelType::kPhi3:
      keys.expect("attention_bias", false, "transformers has none in this type");
      return;
    case ModelType::kQwen3:
    case ModelType::kQwen3Moe:
    case ModelType::kDeepseekV3:
    case ModelType::kGemma:
    case ModelType::kGemma2:
    case ModelType::kGemma3:
    case ModelType::kOlmo2:
    case ModelType::kOlmoe:
    case ModelType::kGraniteMoe:
    case ModelType::kCohere:
    case ModelType::kCohere2:
    case ModelType::kLlama4:
      break;
  }
  model.add_qkv_bias = keys.flag_or("attention_bias", false);
  model.add_projection_bias = model.add_qkv_bias;
  if (model.add_qkv_bias && model.add_mlp_bias) {
    model.add_bias_linear = true;
    model.add_qkv_bias = model.add_projection_bias = model.add_mlp_bias = false;
  }
}

void read_heads(const Keys& keys, ModelType type, TransformerConfig& model) {
  const TypeTraits traits = traits_of(type);
  const bool has_norm_key =
      is_one_of(type, {ModelType::kCohere, ModelType::kGlm4Moe, ModelType::kLlama4});
  if (!has_norm_key) {
    keys.expect("use_qk_norm", traits.qk_layernorm, "what this type always has");
  }
  if (is_one_of(type, {ModelType::kDeepseekV2, ModelType::kDeepseekV3})) {
    // transformers writes these keys too; they follow from the widths below.
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
  if (type == ModelType::kGptBigCode) {
    model.num_query_groups = keys.flag_or("multi_query", true) ? 1 : 0;
    return;
  }
  model.num_query_groups = keys.size_or(
      "num_key_value_heads", keys.reader().has("num_key_value_heads") ? 0 : traits.groups);
  if (traits.has_head_key) {
    model.kv_channels = keys.size_or("head_dim", traits.head);
  }
  if (type == ModelType::kNemotron) {  // exports of NeMo write Megatron's name, too
    const int exported = keys.size_or("kv_channels", model.kv_channels);
    if (model.kv_channels != 0 && exported != model.kv_channels) {
      keys.refuse("kv_channels", "expected head_dim, " + std::to_string(model.kv_channels) +
                                     ", got " + std::to_string(exported));
    }
    model.kv_channels = exported;
  }
  model.qk_layernorm =
      has_norm_key ? keys.flag_or("use_qk_norm", traits.qk_layernorm) : traits.qk_layernorm;
  if (model.qk_layernorm) {
    model.qk_layernorm_width = norm_width(type);
  }
  if (type == ModelType::kCohere2 && model.kv_channels != 0 &&
      model.kv_channels != model.hidden_size / model.num_attention_heads) {
    keys.refuse("head_dim",
                "expected hidden_size / num_attention_heads, which this type has, got " +
                    std::to_string(model.kv_channels));
  }
  if (type == ModelType::kStableLm) {
    keys.expect("qk_layernorm", false, "a norm has one weight for all heads");
  }
}

}  // namespace ptdp::huggingface
