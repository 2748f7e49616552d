// The report of a plan: its answer, its time, its step, its memory, its layers and its traffic.
#pragma once

#include <string>
#include <vector>

#include "planner/answer/planning.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns what a plan is of: its model and its GPUs.
[[nodiscard]] std::string plan_title(const Plan& plan);
/// Returns what the plan's prediction rests on and what was assumed, a line each.
[[nodiscard]] std::vector<std::string> what_it_rests_on(const Plan& plan, const AnswerNotes& notes);

/// Returns a report that has the plan's answer and its figures alone.
[[nodiscard]] Report begun_report(const Plan& plan, const RunBudget& budget,
                                  const AnswerNotes& notes);
/// Adds what the plan alone says: where its time goes, its step, memory, layers and traffic, and
/// what names mean. A step that a page has no room for is not simulated.
void add_plan_sections(Report& report, const Plan& plan);

/// Returns the report of one plan.
[[nodiscard]] Report plan_report(const Plan& plan, const RunBudget& budget,
                                 const AnswerNotes& notes);

/// Returns the report of a search; `result.plans` must not be empty. What binds the plan and what
/// would flip the choice stand there if `result.explanation` does.
[[nodiscard]] Report planning_report(const PlanningResult& result, const RunBudget& budget,
                                     const AnswerNotes& notes);

}  // namespace ptdp
