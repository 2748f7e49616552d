// What the names in one-line configurations mean.
#pragma once

#include <vector>

#include "planner/plan/plan.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns a table of the fields that the plans' one-line configurations print, and what each
/// means.
[[nodiscard]] ReportSection names_section(const std::vector<Plan>& plans);

}  // namespace ptdp
