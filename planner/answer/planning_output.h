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
///   - what was assumed, other remarks, and the command to type next (`notes`).
[[nodiscard]] std::string to_text(const PlanningResult& result, const RunBudget& budget,
                                  const AnswerNotes& notes);
/// Returns the answer in one sentence: configuration, time, rate, idle GPUs.
[[nodiscard]] std::string headline(const Plan& plan);
/// Returns the terms of a breakdown, the largest first.
[[nodiscard]] std::vector<CostTerm> terms_by_time(const CostBreakdown& cost);
/// Returns the model FLOPs utilization where attention counts as a causal mask leaves it.
[[nodiscard]] Estimate<double> causal_mfu(const Plan& plan);
/// Returns a line on what the best plan was chosen for among those that tie, and what a batch would
/// do for idle GPUs; empty where there is nothing to say.
[[nodiscard]] std::string choice_remark(const PlanningResult& result);
/// Returns how much worse a plan is than the best one under an objective, as a fraction.
[[nodiscard]] double loss_of(const Plan& plan, const Plan& best, Objective objective);

/// Returns one plan as text, without the search around it.
[[nodiscard]] std::string to_text(const Plan& plan, const RunBudget& budget);
/// Returns the plan in a format; `budget` is for the text.
[[nodiscard]] std::string in_format(AnswerFormat format, const Plan& plan, const RunBudget& budget);

/// Returns why nothing fits: violated constraints with the nearest feasible values, and how many
/// GPUs would do. May search with more GPUs.
[[nodiscard]] std::string failure_text(const PlanningResult& result);

}  // namespace ptdp
