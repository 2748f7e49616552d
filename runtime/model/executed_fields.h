// What of a plan the runtime executes: a row for every field of a configuration and of a model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// A field of a plan, what of it the runtime executes, and whether that covers this plan.
struct ExecutedField {
  std::string_view key;       ///< As plan.json names it.
  std::string_view executes;  ///< Values that are executed: "any", "1", "layer-norm".
  bool is_executed = true;    ///< Whether the plan's value is one of them.
  std::string found = {};     ///< The plan's value, or what the model has; empty where executed.
};

/// One row for every field of a configuration, in the order of kConfigFields.
[[nodiscard]] std::vector<ExecutedField> executed_fields(const ParallelConfig& config);

/// One row for every field of a resolved model, in the order of their declaration.
[[nodiscard]] std::vector<ExecutedField> executed_fields(const TransformerConfig& model);

/// Names the first field that the runtime does not execute and what it would; empty where it
/// executes all: "config.cp: ptdp-run executes 1, got 2".
[[nodiscard]] std::string find_unexecuted(const ParallelConfig& config);

/// Says what a model has that the layers cannot run, "has rotary positions"; empty where they run
/// all of it.
[[nodiscard]] std::string find_unsupported_feature(const TransformerConfig& model);

}  // namespace ptdp
