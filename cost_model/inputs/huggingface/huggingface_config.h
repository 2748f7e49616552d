// Models as users have them: the config.json of Hugging Face transformers.
#pragma once

#include <string>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/object_reader.h"

namespace ptdp {

/// Returns whether a JSON object is a Hugging Face config.json ("model_type", no "schema") and not
/// a profile of this project.
[[nodiscard]] bool is_huggingface_config(ObjectReader& reader);

/// Longest sequence [tokens] that a model from a config.json is assumed to be trained with. The
/// file only says the longest sequence that the model takes.
inline constexpr int kUsualSequence = 8192;

/// What a config.json says of a model, and what was not taken from it.
struct HuggingfaceModel {
  TransformerConfig config;              ///< The model's shape, resolved (resolved()).
  std::vector<std::string> assumptions;  ///< What was left out on purpose, one line each.
  std::vector<std::string> warnings;     ///< Keys that nobody knows, one line each.
};

/// Reads a config.json into a resolved TransformerConfig. Types: gpt2, gpt_bigcode, gpt_neox, opt,
/// bloom, mpt, falcon, llama, mistral, mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe, deepseek_v2,
/// deepseek_v3, kimi_k2, gpt_oss, nemotron, gemma, gemma2, gemma3, gemma3_text, phi3, olmo2, olmoe,
/// granite, granitemoe, starcoder2, stablelm, cohere, cohere2, smollm3, glm4, glm4_moe, exaone4,
/// seed_oss, ernie4_5, minimax_m2, llama4, llama4_text and dbrx. Of gemma3 and llama4 it is the
/// part that reads text.
///
/// The model is a language model with logits, whatever `architectures` says. seq_length is the
/// longest sequence that it takes. A key that is absent or null has the default of the type's
/// configuration class. Layers, heads, vocabulary and the widths of the model and its MLP have no
/// default, except heads and vocabulary of gemma3.
///
/// Keys that transformers or a known exporter writes are passed over if they decide neither the
/// cost nor the result of training. Models with experts or latent attention are read for their
/// costs: keys of their routers and losses are passed over, too. Throws Error, naming the key, for
/// any other key, another type, and a value that TransformerConfig cannot say.
///
/// Source: configuration_<type>.py, modeling_<type>.py and modeling_rope_utils.py of
/// huggingface/transformers 5.12.1 and 5.24.0, configuration_deepseek.py of DeepSeek-V3.
[[nodiscard]] TransformerConfig read_huggingface_config(ObjectReader& reader);

/// Reads a config.json as read_huggingface_config() does, but warns of keys that nobody knows if
/// their names say nothing of a model's shape. A near miss of a known key is an error.
[[nodiscard]] HuggingfaceModel read_huggingface_model(ObjectReader& reader);

}  // namespace ptdp
