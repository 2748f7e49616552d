// Writes models as the config.json of Hugging Face transformers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// A field of a model that a config.json cannot say.
struct UnsaidField {
  std::string field;     ///< As a plan spells it.
  std::string found;     ///< Value of the model, as JSON.
  std::string expected;  ///< Value of every model of the type, as JSON, or words.
};

/// Returns the first field of a resolved model that a config.json of a type cannot say; nullopt if
/// there is none. Throws Error for a type that huggingface_config() does not write.
[[nodiscard]] std::optional<UnsaidField> unsaid_in_huggingface_config(
    const TransformerConfig& model, std::string_view type);

/// Returns the text of a config.json that says all of a resolved model. `type` is the name of a
/// type: llama, mistral, qwen2, qwen3, gemma, gemma2, phi3, olmo2, granite, gpt2, gpt_neox,
/// nemotron, starcoder2 or stablelm.
///
/// read_huggingface_config() reads an equal model from it, but for fields that mean nothing in the
/// model. max_position_embeddings is seq_length. Tokens that begin, end and pad are null. Positions
/// have the keys that transformers 4 and 5 both read.
///
/// Throws Error for any other type. It also does so for what a model of the type cannot say, naming
/// the field, its value, and the value expected.
///
/// Source: configuration_<type>.py of huggingface/transformers 5.12.1.
[[nodiscard]] std::string huggingface_config(const TransformerConfig& model, std::string_view type);

/// Returns the text `config` of a config.json with what `original`, the text of another, says of
/// tokens. These are the tokens that begin, end, pad and separate texts, and the tokenizer's class.
/// A key that `original` lacks is left out, so that both mean the default of one class. Throws
/// Error for text other than a JSON object.
[[nodiscard]] std::string with_tokens_of(std::string_view original, std::string_view config);

}  // namespace ptdp
