// A plan's model as torchtitan builds it: a flavor that it ships, or Python that makes the shape.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/export/exporter.h"

namespace ptdp {

/// A model that torchtitan ships: its module and the name of its sizes.
struct TorchtitanFlavor {
  std::string_view module;  ///< "llama3", "qwen3".
  std::string_view name;    ///< "8B".
};

/// Returns the flavor of torchtitan 0.2.2 whose sizes are all those of a model; nullopt if none.
/// Source: torchtitan 0.2.2, models/llama3/__init__.py and models/qwen3/__init__.py.
[[nodiscard]] std::optional<TorchtitanFlavor> torchtitan_flavor(const TransformerConfig& model);

/// Returns what of a plan's model torchtitan 0.2.2 has no flavor for.
[[nodiscard]] std::vector<ExportRefusal> torchtitan_flavor_refusals(const Plan& plan);
/// Returns what of a plan's model torchtitan 0.3.0 has no module for: it has those of Llama 3 and
/// of Qwen 3, in any size, and DeepSeek-V3.
[[nodiscard]] std::vector<ExportRefusal> torchtitan_shape_refusals(const Plan& plan);

/// Returns a Python module for --module. Its functions, for --config, are `mock_data` and
/// `text_data`. Both return a Trainer.Config with a model of the plan's shape. Source: torchtitan
/// 0.3.0, models/llama3, models/qwen3 and models/deepseek_v3.
[[nodiscard]] std::string torchtitan_python(const Plan& plan);

}  // namespace ptdp
