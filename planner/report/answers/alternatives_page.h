// The reports of answers that set alternatives beside each other, each at its best.
#pragma once

#include "planner/answer/planning.h"
#include "planner/answer/stacks.h"
#include "planner/answer/strategies.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of all stacks: times with intervals, what else sets them apart, and by choice
/// where each one's time goes and what fills its memory. Some stack must have a plan.
[[nodiscard]] Report stacks_report(const StackComparison& comparison, const AnswerNotes& notes);

/// Returns the report of the sharding strategies, with the sections of stacks_report(). Some
/// strategy must have a plan.
[[nodiscard]] Report strategies_report(const StrategyComparison& comparison,
                                       const AnswerNotes& notes);

}  // namespace ptdp
