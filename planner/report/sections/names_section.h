// What the names in one-line configurations mean.
#pragma once

#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns a table of the fields that the one-line texts of configurations print, of their
/// recomputed modules and their schedules, and what each means.
[[nodiscard]] ReportSection names_section(const std::vector<ParallelConfig>& configs);

}  // namespace ptdp
