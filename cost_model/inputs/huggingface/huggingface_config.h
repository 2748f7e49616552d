// Models as users have them: the config.json of Hugging Face transformers.
#pragma once

#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/object_reader.h"

namespace ptdp {

/// Returns whether a JSON object is a Hugging Face config.json ("model_type", no "schema") and not
/// a profile of this project.
[[nodiscard]] bool is_huggingface_config(ObjectReader& reader);

/// Longest sequence [tokens] that a model from a config.json is assumed to be trained with. The
/// file only says the longest sequence that the model takes.
inline constexpr int kUsualSequence = 8192;

/// Reads a config.json into a resolved TransformerConfig. Types: gpt2, gpt_neox, llama, mistral,
/// mixtral, qwen2, qwen2_moe, qwen3, qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2, gpt_oss,
/// nemotron, gemma, gemma2, phi3, olmo2, granite, starcoder2, stablelm.
///
/// The model is a language model with logits, whatever `architectures` says. seq_length is the
/// longest sequence that it takes. A key that is absent or null has the default of the type's
/// configuration class. Layers, heads, vocabulary and the widths of the model and its MLP have no
/// default.
///
/// Keys that transformers or a known exporter writes are passed over if they decide neither the
/// cost nor the result of training. Models with experts or latent attention are read for their
/// costs: keys of their routers and losses are passed over, too. Throws Error, naming the key, for
/// any other key, another type, and a value that TransformerConfig cannot say.
///
/// Source: configuration_<type>.py, modeling_<type>.py and modeling_rope_utils.py of
/// huggingface/transformers 5.12.1, configuration_deepseek.py of DeepSeek-V3.
[[nodiscard]] TransformerConfig read_huggingface_config(ObjectReader& reader);

}  // namespace ptdp
