// Compares single collective calls: what the model and the transport expect of them, and what they
// took.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/runs/run_report.h"
#include "runtime/run/training_run.h"

namespace ptdp {

/// Compares the largest call of each group and kind, on the first rank of a pipeline (tensor rank 0
/// of replica 0) that makes it. The measured time is the median over steps from `first_step` on.
/// Returns nothing when the transport estimates nothing. `predicted` is the plan as it ran, or null
/// when nothing is predicted for the run.
[[nodiscard]] std::vector<CallComparison> compare_calls(const RunRecord& record,
                                                        const ParallelConfig& config,
                                                        std::size_t first_step,
                                                        const Plan* predicted);

}  // namespace ptdp
