#include "cost_model/inputs/huggingface/huggingface_config.h"

#include <string>

#include "cost_model/inputs/huggingface/huggingface_fields.h"
#include "cost_model/inputs/huggingface/huggingface_keys.h"
#include "cost_model/inputs/huggingface/huggingface_traits.h"

namespace ptdp {
namespace {

using huggingface::Keys;
using huggingface::ModelType;
using huggingface::TypeTraits;

TransformerConfig read_gpt2(const Keys& keys) {
  return {.num_layers = keys.size("n_layer", kMostModelLayers),
          .hidden_size = keys.size("n_embd"),
          .num_attention_heads = keys.size("n_head"),
          .ffn_hidden_size = keys.size_or("n_inner", 0),
          .vocab_size = keys.size("vocab_size"),
          .seq_length = keys.size_or("n_positions", 1024, kLongestSequence),
          .untied_embeddings = !keys.flag_or("tie_word_embeddings", true)};
}

/// Reads the sizes, whose keys all types but gpt2 spell alike.
TransformerConfig read_sizes(const Keys& keys, const TypeTraits& traits) {
  return {
      .num_layers = keys.size("num_hidden_layers", kMostModelLayers),
      .hidden_size = keys.size("hidden_size"),
      .num_attention_heads = keys.size("num_attention_heads"),
      .ffn_hidden_size = keys.size("intermediate_size"),
      .vocab_size = keys.size("vocab_size"),
      .seq_length = keys.size_or("max_position_embeddings", traits.seq_length, kLongestSequence),
      .untied_embeddings = !keys.flag_or("tie_word_embeddings", traits.tied_embeddings),
      .position_embedding = PositionEmbedding::kRope};
}

}  // namespace

bool is_huggingface_config(ObjectReader& reader) {
  return !reader.has("schema") && reader.has("model_type");
}

TransformerConfig read_huggingface_config(ObjectReader& reader) {
  const Keys keys(reader);
  ModelType type = ModelType::kGpt2;
  reader.choice("model_type", type, NamedValues<ModelType>(huggingface::kModelTypes));
  const TypeTraits traits = huggingface::traits_of(type);
  TransformerConfig model = type == ModelType::kGpt2 ? read_gpt2(keys) : read_sizes(keys, traits);
  model.gated_linear_unit = traits.gated_linear_unit;
  model.normalization = traits.normalization;
  huggingface::read_biases(keys, type, model);
  huggingface::read_heads(keys, type, model);
  huggingface::read_window(keys, type, model);
  huggingface::read_rotary(keys, type, model);
  huggingface::read_numerics(keys, type, model);
  huggingface::read_experts(keys, type, model);
  if (type == ModelType::kDeepseekV3) {
    model.mtp_num_layers = keys.count_or(
        keys.spelling_of({"num_nextn_predict_layers", "num_mtp_layers"}), 0, kMostModelLayers);
  }
  huggingface::read_dropout(keys, type, model);
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
