// What of a plan Megatron-LM cannot run, and what it does differently.
#pragma once

#include <string>
#include <vector>

#include "planner/export/exporter.h"

namespace ptdp {

/// Returns what of the plan's model no Megatron flag expresses.
[[nodiscard]] std::vector<ExportRefusal> megatron_model_refusals(const Plan& plan);
/// Returns what of a model's rotary positions no Megatron flag expresses.
[[nodiscard]] std::vector<ExportRefusal> megatron_position_refusals(const TransformerConfig& model);
/// Returns what of the plan's configuration Megatron-Core cannot run. It includes what its parser
/// accepts although training fails or differs: more recomputed layers than a chunk has, groups of
/// microbatches that interleaving refuses (schedules.py), experts that do not divide the ranks,
/// experts and tensor parallelism without sequence parallelism (moe_layer.py).
[[nodiscard]] std::vector<ExportRefusal> megatron_plan_refusals(const Plan& plan);

/// Returns sentences that say what Megatron-Core does differently from what the plan costs.
[[nodiscard]] std::vector<std::string> megatron_differences(const Plan& plan);

}  // namespace ptdp
