// The memory of a plan as pictures: by stage and category, and over the time of a step.
#pragma once

#include <cstddef>

#include "planner/plan/plan_simulation.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns a column for each pipeline stage [GiB], category upon category, below what a GPU has.
[[nodiscard]] ReportSection memory_by_stage(const Plan& plan);

/// Most points of a curve of memory.
inline constexpr std::size_t kMostMemoryPoints = 2000;

/// Returns what ranks hold over a simulated step [GiB over s]: all ranks, or of many the first, the
/// heaviest, the last and one between. Curves of more than kMostMemoryPoints are thinned out; of
/// each run of samples the least and the largest stay.
[[nodiscard]] ReportSection memory_over_time(const Plan& plan, const PlanSimulation& simulation);

}  // namespace ptdp
