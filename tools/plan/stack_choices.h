// Every stack that a cluster may run, as the flags of a search ask for it.
#pragma once

#include <vector>

#include "planner/answer/stacks.h"
#include "tools/plan/plan_request.h"

namespace ptdp {

/// Returns a choice for each shipped stack: the request's job on its cluster, with the precision
/// and the memory that `fit` asks for; without it, each stack's usual reserve. A stack that the
/// cluster cannot run has the reason. `request` has no memory reserved yet.
[[nodiscard]] std::vector<StackChoice> stack_choices(const CommandLine& line,
                                                     const PlanRequest& request,
                                                     const CalibrationSource& calibration,
                                                     const std::optional<FitRequest>& fit);

}  // namespace ptdp
