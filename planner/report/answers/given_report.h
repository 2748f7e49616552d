// The report of one configuration that was given.
#pragma once

#include "planner/answer/given_config.h"
#include "planner/import/imported_run.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of a configuration: whether it runs, what would make it run, what the best
/// plan would gain, and what it costs. One whose numbers do not go together has texts alone.
/// `notes.next` is what gain_text() ends with.
[[nodiscard]] Report given_report(const GivenConfig& given, const ReadingNotes& reading,
                                  const RunBudget& budget, const AnswerNotes& notes);

}  // namespace ptdp
