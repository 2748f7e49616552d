// The report of a training program's log, beside what is predicted of its run.
#pragma once

#include "planner/answer/measured_iteration.h"
#include "planner/logs/log_report.h"
#include "planner/report/report.h"

namespace ptdp {

/// Adds what a log measured: its values beside predicted ones, time and loss by iteration, memory,
/// and Megatron's timers.
void add_log_sections(Report& report, const LogReport& log);
/// Adds how usual a measured iteration is, and what may explain its difference.
void add_measured_sections(Report& report, const MeasuredIteration& iteration, const Plan& plan);

/// Returns the report of a log. Without a plan it has what was measured alone.
[[nodiscard]] Report log_page(const LogReport& log);

}  // namespace ptdp
