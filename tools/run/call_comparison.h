// Calls of a group one by one: what the model and the transport expect of them, and what they took.
#pragma once

#include <cstddef>
#include <vector>

#include "planner/plan/plan.h"
#include "planner/runs/run_report.h"
#include "runtime/run/training_run.h"

namespace ptdp {

/// Of each group and kind the largest call, on the first rank of a pipeline (tensor rank 0 of
/// replica 0) that makes it: the median from `first_step` on. Empty where the transport estimates
/// nothing. `predicted`: the plan as it ran; null where nothing is predicted of the run.
[[nodiscard]] std::vector<CallComparison> compare_calls(const RunRecord& record,
                                                        const ParallelConfig& config,
                                                        std::size_t first_step,
                                                        const Plan* predicted);

}  // namespace ptdp
