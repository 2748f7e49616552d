// The report of degrees for a list of layers of any architecture.
#pragma once

#include <string>
#include <vector>

#include "planner/partition_report/layer_plans.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of the plans of a list: which degrees are fastest and, of those that are
/// chosen, where the time goes, the stages with their layers, and memory; the step of the best one.
/// `plans.plans` must not be empty; `assumptions` are what the flags left out.
[[nodiscard]] Report layer_plans_page(const LayerPlans& plans,
                                      const std::vector<std::string>& assumptions);

}  // namespace ptdp
