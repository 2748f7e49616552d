// Degrees for a list of layers, for people and for programs: text, `ptdp.layer_plans/1` (described
// in FORMATS.md), CSV.
#pragma once

#include <string>
#include <vector>

#include "planner/answer_format.h"
#include "planner/partition_report/layer_plans.h"

namespace ptdp {

/// Returns what was searched: "vision on 64 GPUs of dgx-h100 with megatron-core-2025, batch 512".
[[nodiscard]] std::string headline(const LayerPlans& plans);
/// Returns one line of degrees as people call them: "pp=4 dp=16 vpp=2 zero=1, interleaved".
[[nodiscard]] std::string degrees_text(const ParallelConfig& config);

/// Returns what the plans of a list rest on, and what was not looked at, one line each.
[[nodiscard]] std::vector<std::string> basis_of(const LayerPlans& plans);

/// Returns why no degrees fit, for the message of an error.
[[nodiscard]] std::string why_nothing_fits(const LayerPlans& plans);

/// Returns the plans of a list in one of kPlanFormats. `assumptions` are what the flags left out.
[[nodiscard]] std::string in_format(AnswerFormat format, const LayerPlans& plans,
                                    const std::vector<std::string>& assumptions);

}  // namespace ptdp
