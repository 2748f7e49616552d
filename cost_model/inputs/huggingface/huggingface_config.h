// Models as users have them: the config.json of Hugging Face transformers.
#pragma once

#include "cost_model/inputs/transformer_config.h"
#include "cost_model/text/object_reader.h"

namespace ptdp {

/// Whether a JSON object is such a file, and no profile of ours.
[[nodiscard]] bool is_huggingface_config(ObjectReader& reader);

/// The longest sequence that a model from such a file is taken to be trained with where nothing
/// else is said: the file has the longest that it can be asked.
inline constexpr int kUsualSequence = 8192;

/// Reads a model of type gpt2, gpt_neox, llama, mistral, mixtral, qwen2, qwen2_moe, qwen3,
/// qwen3_moe, deepseek_v2, deepseek_v3, kimi_k2 or nemotron, as a language model with its logits
/// whatever `architectures` says; seq_length is the longest that it takes. What is absent or null
/// has the default of the type's configuration class; layers, heads, vocabulary and the widths of
/// the model and its MLP have none. A key that says nothing about the cost of training, nor about
/// the result of training a gpt2, is passed over if transformers or a known exporter writes it; any
/// other is an error that names it, as is another type and a pattern of layers that
/// TransformerConfig does not have. Resolved. Source: configuration_<type>.py and
/// modeling_<type>.py of huggingface/transformers, configuration_deepseek.py of DeepSeek-V3.
[[nodiscard]] TransformerConfig read_huggingface_config(ObjectReader& reader);

}  // namespace ptdp
