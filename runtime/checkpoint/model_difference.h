// Says in which field two models differ.
#pragma once

#include <optional>
#include <string>

#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// A field that differs between two models, with both values as JSON.
struct ModelDifference {
  std::string key;
  std::string found;     ///< The value, or "the usual" where a document leaves it out.
  std::string expected;  ///< The expected value, or "the usual".
};

/// Returns the first field in which the models' documents differ; nullopt when they are equal.
[[nodiscard]] std::optional<ModelDifference> model_difference(const TransformerConfig& found,
                                                              const TransformerConfig& expected);

}  // namespace ptdp
