// Where the time of an iteration goes, from what a GPU's peak would take to what is predicted.
#pragma once

#include "planner/plan/plan.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the predicted iteration as a waterfall [s], on the GPU that paces it. It starts with the
/// causal model FLOPs at the peak of all GPUs in use; the bars add up to the iteration. A bar of no
/// time is left out. Those of products and attention may be below 0, as their notes say.
[[nodiscard]] ReportSection iteration_waterfall(const Plan& plan);

}  // namespace ptdp
