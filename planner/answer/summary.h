// The answer of a search as a person reads it.
#pragma once

#include <string>
#include <vector>

#include "planner/answer/planning.h"
#include "planner/answer_format.h"
#include "planner/explain/explain.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// The answer in one sentence; configuration; predictions with intervals; where the time goes;
/// memory of the heaviest stage; bytes on the links; runners-up; rules of thumb; published results;
/// what was assumed (`assumptions`, one line each); the command to type next (`next`).
/// `result.plans` must not be empty.
[[nodiscard]] std::string summarize(const PlanningResult& result, const RunBudget& budget,
                                    const std::vector<std::string>& assumptions,
                                    const std::string& next);

/// One plan without the search around it.
[[nodiscard]] std::string summarize(const Plan& plan, const RunBudget& budget);
/// The plan in a format; `budget` is for people.
[[nodiscard]] std::string in_format(AnswerFormat format, const Plan& plan, const RunBudget& budget);

/// Why nothing fits: the tally with the nearest feasible values, and how many GPUs would do.
[[nodiscard]] std::string summarize_failure(const PlanningResult& result);

}  // namespace ptdp
