// What binds a plan and what would flip the choice, as sections of a report.
#pragma once

#include "planner/answer/planning.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns what other inputs would do to the choice. Times are calibrated; `result.explanation`
/// must be there.
[[nodiscard]] ReportSection flips_section(const PlanningResult& result);

/// Returns what binds the plan, what would make it faster, and what would flip the choice, in
/// sentences. `result.explanation` must be there.
[[nodiscard]] ReportSection explanation_section(const PlanningResult& result);

}  // namespace ptdp
