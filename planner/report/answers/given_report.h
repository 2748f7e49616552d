// The report of one configuration that was given.
#pragma once

#include <optional>

#include "planner/answer/given_config.h"
#include "planner/import/imported_run.h"
#include "planner/logs/log_report.h"
#include "planner/report/report.h"

namespace ptdp {

/// Returns the report of a configuration: whether it runs, what would make it run, what the best
/// plan would gain, and what it costs. One whose numbers do not go together has texts alone. `log`
/// is the one that says what an iteration took, if one does. `notes.next` is what gain_text() ends
/// with.
[[nodiscard]] Report given_report(const GivenConfig& given, const ReadingNotes& reading,
                                  const RunBudget& budget, const AnswerNotes& notes,
                                  const std::optional<LogReport>& log = std::nullopt);

}  // namespace ptdp
