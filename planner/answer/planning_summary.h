// The answer of a search in as many lines as a terminal shows at once.
#pragma once

#include <string>
#include <vector>

#include "planner/answer/planning.h"

namespace ptdp {

/// Returns a line with what was assumed, without the reasons; empty where nothing was.
[[nodiscard]] std::string assumed_line(const AnswerNotes& notes);
/// A figure of an answer with its name.
struct NamedFigure {
  std::string name;
  std::string value;
};
/// Returns a plan's time, its largest parts, memory, throughput and, with a budget, training.
[[nodiscard]] std::vector<NamedFigure> figures_of(const Plan& plan, const RunBudget& budget);
/// Returns the figures of figures_of(), a line each.
[[nodiscard]] std::string figures_text(const Plan& plan, const RunBudget& budget);

/// Returns the answer with what decides about it, in about 24 lines of 80 columns. It has time,
/// memory, throughput, what the plan was chosen for, and the first runners-up. `result.plans` must
/// not be empty.
[[nodiscard]] std::string summary_text(const PlanningResult& result, const RunBudget& budget,
                                       const AnswerNotes& notes);

}  // namespace ptdp
