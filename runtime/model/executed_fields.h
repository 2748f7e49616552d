// Tells what of a plan the runtime executes: a row for every field of a configuration and of a
// model.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/transformer_config.h"

namespace ptdp {

/// A field of a plan, the values of it that the runtime executes, and whether this plan's value is
/// one of them.
struct ExecutedField {
  std::string_view key;       ///< Name of the field in plan.json.
  std::string_view executes;  ///< Values that the runtime executes: "any", "1", "false".
  bool is_executed = true;    ///< Whether the plan's value is executed.
  std::string found = {};  ///< The plan's value, or what the model has; empty when it is executed.
};

/// Returns a row for every field of a configuration, in the order of kConfigFields.
[[nodiscard]] std::vector<ExecutedField> executed_fields(const ParallelConfig& config);

/// Returns a row for every field of a resolved model, in the order of their declaration.
[[nodiscard]] std::vector<ExecutedField> executed_fields(const TransformerConfig& model);

/// Returns the first field that the runtime does not execute, and what it would: "config.cp:
/// ptdp-run executes 1, got 2". Returns "" when it executes all.
[[nodiscard]] std::string find_unexecuted(const ParallelConfig& config);

/// Returns what find_unexecuted(config) does, and a configuration's field that is not executed for
/// this model alone: tp where layer norms of queries and keys reach over all heads.
[[nodiscard]] std::string find_unexecuted(const TransformerConfig& model,
                                          const ParallelConfig& config);

/// Returns what a model has that the layers cannot run, such as "has latent attention". Returns ""
/// when they run all of it.
[[nodiscard]] std::string find_unsupported_feature(const TransformerConfig& model);

}  // namespace ptdp
