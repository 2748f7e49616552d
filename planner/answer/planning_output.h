// The answer of a search as text for people.
#pragma once

#include <string>
#include <vector>

#include "planner/answer/planning.h"
#include "planner/answer_format.h"
#include "planner/explain/explain.h"
#include "planner/plan/plan.h"

namespace ptdp {

/// Returns the whole answer as text; `result.plans` must not be empty. Its parts are:
///
///   - the answer in one sentence, and the configuration;
///   - predictions with intervals, and where the time goes;
///   - memory of the heaviest stage, and bytes on the links;
///   - runners-up, Pareto front, rules of thumb, published results, tally of candidates;
///   - what was assumed (`assumptions`, one line each), and the command to type next (`next`).
[[nodiscard]] std::string to_text(const PlanningResult& result, const RunBudget& budget,
                                  const std::vector<std::string>& assumptions,
                                  const std::string& next);

/// Returns one plan as text, without the search around it.
[[nodiscard]] std::string to_text(const Plan& plan, const RunBudget& budget);
/// Returns the plan in a format; `budget` is for the text.
[[nodiscard]] std::string in_format(AnswerFormat format, const Plan& plan, const RunBudget& budget);

/// Returns why nothing fits: violated constraints with the nearest feasible values, and how many
/// GPUs would do. May search with more GPUs.
[[nodiscard]] std::string failure_text(const PlanningResult& result);

}  // namespace ptdp
