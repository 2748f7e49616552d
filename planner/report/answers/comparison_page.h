// Two plans beside each other as a report.
#pragma once

#include <string>

#include "planner/answer/comparison.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of a comparison: keys, terms, and the time and memory of each stage.
[[nodiscard]] Report comparison_report(const PlanComparison& comparison);

}  // namespace ptdp
