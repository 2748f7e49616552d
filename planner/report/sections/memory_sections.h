// The memory of a plan as pictures: by stage and category, and over the time of a step.
#pragma once

#include <vector>

#include "planner/plan/plan_simulation.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns a column of categories for each GPU [GiB], below what one has or the headroom leaves.
/// `first` is the number of the first column.
[[nodiscard]] StackedView memory_columns(const std::vector<MemoryBreakdown>& memory, int first,
                                         const GpuSpec& gpu, double headroom);

/// Returns a column for each pipeline stage [GiB], category upon category, below what a GPU has.
[[nodiscard]] ReportSection memory_by_stage(const Plan& plan);

/// Returns what ranks hold over a simulated step [GiB over s], drawn_points() of it: all ranks, or
/// of many the first, the heaviest, the last and one between.
[[nodiscard]] ReportSection memory_over_time(const Plan& plan, const PlanSimulation& simulation);

}  // namespace ptdp
