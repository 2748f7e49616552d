// Why a plan is as fast as it is, what would make it faster, and what would flip the choice.
#pragma once

#include <string>
#include <vector>

#include "cost_model/text/object_writer.h"
#include "planner/answer/planning.h"

namespace ptdp {

/// Finds what binds the first plan of the result, what single changes would gain, and which changes
/// of inputs flip the choice. Takes some dozens of searches. `result.plans` must not be empty.
[[nodiscard]] PlanExplanation explain_plan(const PlanningResult& result);

/// Returns at which changes of inputs was searched, and which were left out.
[[nodiscard]] std::string grid_text(const Flips& flips);
/// Returns the explanation in some sentences: memory, time, link, bubble, gains, the runner-up and
/// the smallest flip. `result.explanation` must be there.
[[nodiscard]] std::vector<std::string> explanation_sentences(const PlanningResult& result);

/// Returns the explanation as a part of `ptdp.plans/1`. `result.explanation` must be there.
[[nodiscard]] ObjectWriter explanation_json(const PlanningResult& result);

}  // namespace ptdp
