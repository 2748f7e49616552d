#include "planner/export/trainers/huggingface_model.h"

#include <fmt/format.h>

namespace ptdp {
namespace {

constexpr HuggingfaceType kGpt2{"gpt2",
                                "GPT2Block",
                                {.layer_norm = true,
                                 .learned_positions = true,
                                 .plain_mlp = true,
                                 .all_biases = true,
                                 .dropout = true},
                                false};
constexpr HuggingfaceType kQwen3{
    "qwen3", "Qwen3DecoderLayer", {.wide_heads = true, .qk_layernorm = true}};
constexpr HuggingfaceType kQwen2{"qwen2", "Qwen2DecoderLayer", {.qkv_bias = true}};
constexpr HuggingfaceType kMistral{
    "mistral", "MistralDecoderLayer", {.wide_heads = true, .window = true}};
constexpr HuggingfaceType kLlama{"llama", "LlamaDecoderLayer", {.wide_heads = true}};

std::string gpt2_json(const TransformerConfig& model) {
  const DropoutRates dropout = dropout_rates(model);
  return fmt::format(
      "{{\n  \"model_type\": \"gpt2\",\n  \"n_layer\": {},\n  \"n_embd\": {},\n  \"n_inner\": {},\n"
      "  \"n_head\": {},\n  \"n_positions\": {},\n  \"vocab_size\": {},\n"
      "  \"activation_function\": \"{}\",\n  \"layer_norm_epsilon\": {},\n"
      "  \"initializer_range\": {},\n  \"embd_pdrop\": {},\n  \"attn_pdrop\": {},\n"
      "  \"resid_pdrop\": {},\n  \"tie_word_embeddings\": {}\n}}\n",
      model.num_layers, model.hidden_size, model.ffn_hidden_size, model.num_attention_heads,
      model.seq_length, model.vocab_size,
      activation_of(model) == Activation::kGelu ? "gelu" : "gelu_new", model.layernorm_epsilon,
      model.init_method_std, dropout.embedding, dropout.attention, dropout.hidden,
      !model.untied_embeddings);
}

}  // namespace

const HuggingfaceType& huggingface_type(const TransformerConfig& model) {
  if (model.normalization == Normalization::kLayerNorm || !model.gated_linear_unit ||
      model.position_embedding != PositionEmbedding::kRope) {
    return kGpt2;
  }
  if (model.qk_layernorm) {
    return kQwen3;
  }
  if (model.add_qkv_bias) {
    return kQwen2;
  }
  return has_window(model) ? kMistral : kLlama;
}

std::string huggingface_json(const TransformerConfig& model) {
  const HuggingfaceType& type = huggingface_type(model);
  if (type.name == kGpt2.name) {
    return gpt2_json(model);
  }
  std::string text = fmt::format(
      "{{\n  \"model_type\": \"{}\",\n  \"num_hidden_layers\": {},\n  \"hidden_size\": {},\n"
      "  \"intermediate_size\": {},\n  \"num_attention_heads\": {},\n"
      "  \"num_key_value_heads\": {},\n  \"max_position_embeddings\": {},\n  \"vocab_size\": {},\n"
      "  \"hidden_act\": \"silu\",\n  \"rms_norm_eps\": {},\n  \"initializer_range\": {},\n",
      type.name, model.num_layers, model.hidden_size, model.ffn_hidden_size,
      model.num_attention_heads, model.num_query_groups, model.seq_length, model.vocab_size,
      model.layernorm_epsilon, model.init_method_std);
  if (type.support.wide_heads) {
    text += fmt::format("  \"head_dim\": {},\n", model.kv_channels);
  }
  if (type.name == kMistral.name) {
    text += fmt::format("  \"sliding_window\": {},\n", model.window_size);
  }
  return text + fmt::format("  \"tie_word_embeddings\": {}\n}}\n", !model.untied_embeddings);
}

}  // namespace ptdp
