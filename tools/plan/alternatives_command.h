// `ptdp-plan --stack all` and `--compare-strategies`: alternatives beside each other.
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

/// Plans with every stack, each as stack_choices() has it; prints them, and writes the page of
/// --report. Returns the exit status. Throws Error for flags of one stack, and if none has a plan.
[[nodiscard]] int run_stacks(const CommandLine& line, const PlanRequest& request,
                             const SearchOptions& options, const CalibrationSource& calibration,
                             const FitRequest& fit);

/// Plans with every sharding strategy, as run_stacks() does with stacks.
[[nodiscard]] int run_strategies(const CommandLine& line, const PlanRequest& request,
                                 const SearchOptions& options,
                                 const CalibrationSource& calibration);

}  // namespace ptdp
