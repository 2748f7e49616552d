// Rows that leave fields out: their ranges beside what was measured, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "cost_model/text/object_writer.h"
#include "planner/accuracy/validation_report.h"

namespace ptdp {

/// Every partial row under a calibration by complete rows: kShipped as a run's of ptdp-plan is,
/// kLeaveOneGroupOut by those of its scope that are not of its group, kLeaveOneOut and
/// kScale, which are one where the row itself is in no fit, by all of them.
[[nodiscard]] std::vector<ValidatedPartialRun> validate_partial_runs(const CostedRuns& runs,
                                                                     CalibrationKind calibration);

/// By group, in order of name, and "all" at the end; nothing of no rows.
[[nodiscard]] std::vector<PartialGroup> partial_groups(
    const std::vector<ValidatedPartialRun>& runs);

[[nodiscard]] std::string partial_table(const std::vector<ValidatedPartialRun>& runs);
/// `partial[]` of `ptdp.validation/1`.
[[nodiscard]] std::vector<ObjectWriter> partial_json(const std::vector<ValidatedPartialRun>& runs);
/// The section of the page of errors: the same rows as they are, and calibrated by complete ones.
[[nodiscard]] std::string partial_section(const std::vector<ValidatedPartialRun>& none,
                                          const std::vector<ValidatedPartialRun>& calibrated);

}  // namespace ptdp
