// Every stack that a cluster may run, as the flags of a search ask for it.
#pragma once

#include <vector>

#include "planner/answer/stacks.h"
#include "tools/plan/plan_request.h"

namespace ptdp {

/// Returns a choice for each shipped stack, with the job and the cluster of `request` and the
/// precision that flags ask for. It reserves what `fit` asks for, else each stack's usual memory. A
/// stack that the cluster cannot run has the reason. `request` has no memory reserved yet.
[[nodiscard]] std::vector<StackChoice> stack_choices(const CommandLine& line,
                                                     const PlanRequest& request,
                                                     const CalibrationSource& calibration,
                                                     const std::optional<FitRequest>& fit);

}  // namespace ptdp
