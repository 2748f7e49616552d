// A model as Hugging Face transformers' classes take it.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "cost_model/inputs/transformer_config.h"
#include "planner/export/trainers/model_support.h"

namespace ptdp {

/// One of transformers' model types, and what its class can have beside Llama's parts.
struct HuggingfaceType {
  std::string_view name;         ///< As model_type spells it.
  std::string_view layer_class;  ///< Class of a layer, which FSDP gathers at a time.
  ModelSupport support;
  bool splits_tensors = true;  ///< Whether the class has a plan of tensor parallelism.
};

/// Returns the type that comes closest to a model; its support says whether it fits.
/// Source: transformers 5.12, models/<type>/modeling_<type>.py and configuration_<type>.py.
[[nodiscard]] const HuggingfaceType& huggingface_type(const TransformerConfig& model);

/// Returns the model as a config.json of its type.
[[nodiscard]] std::string huggingface_json(const TransformerConfig& model);

}  // namespace ptdp
