// What a measured iteration says beside its plan, as sections of a report.
#pragma once

#include "planner/answer/measured_iteration.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the measured time over what the cost model alone predicts, beside what is usual of such
/// runs.
[[nodiscard]] ReportSection factor_section(const MeasuredIteration& iteration, const Plan& plan);

/// Returns the terms that may hide the difference, and what shows whether they do.
[[nodiscard]] ReportSection suspects_section(const MeasuredIteration& iteration, const Plan& plan);

}  // namespace ptdp
