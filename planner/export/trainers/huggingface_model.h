// A model as Hugging Face transformers' classes take it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/transformer_config.h"
#include "planner/export/exporter.h"

namespace ptdp {

/// One of transformers' model types.
struct HuggingfaceType {
  std::string_view name;         ///< As model_type spells it.
  std::string_view layer_class;  ///< Class of a layer, which FSDP gathers at a time.
  bool splits_tensors = true;    ///< Whether the class has a plan of tensor parallelism.
};

/// Returns the type that comes closest to a model; huggingface_refusals() says whether it fits.
/// Source: transformers 5.12, models/<type>/modeling_<type>.py and configuration_<type>.py.
[[nodiscard]] HuggingfaceType huggingface_type(const TransformerConfig& model);

/// Returns the first field of a resolved model that its type's config.json does not say.
[[nodiscard]] std::vector<ExportRefusal> huggingface_refusals(const TransformerConfig& model);

/// Returns the model as a config.json of its type. Throws Error for a model that it does not say.
[[nodiscard]] std::string huggingface_json(const TransformerConfig& model);

}  // namespace ptdp
