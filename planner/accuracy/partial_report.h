// Reports of rows that leave fields out: their ranges beside what was measured, as tables and JSON.
#pragma once

#include <string>
#include <vector>

#include "cost_model/text/object_writer.h"
#include "planner/accuracy/validation_report.h"

namespace ptdp {

/// Predicts every partial row under a calibration by complete rows. kShipped calibrates as
/// ptdp-plan would. kLeaveOneGroupOut takes the complete rows that are not of the row's group.
/// kLeaveOneOut and kScale take all of them: they are one, since a partial row is in no fit.
[[nodiscard]] std::vector<ValidatedPartialRun> validate_partial_runs(const CostedRuns& runs,
                                                                     CalibrationKind calibration);

/// Summarizes partial rows by group, in the order of names, with "all" at the end. Returns nothing
/// when there are no rows.
[[nodiscard]] std::vector<PartialGroup> partial_groups(
    const std::vector<ValidatedPartialRun>& runs);

/// Returns partial rows and their groups as tables for people.
[[nodiscard]] std::string to_text(const std::vector<ValidatedPartialRun>& runs);
/// Returns the objects of `partial[]` in `ptdp.validation/1`.
[[nodiscard]] std::vector<ObjectWriter> partial_json(const std::vector<ValidatedPartialRun>& runs);
/// Returns a section of the page of errors. `none` and `calibrated` are the same rows, uncalibrated
/// and calibrated by complete rows.
[[nodiscard]] std::string partial_section(const std::vector<ValidatedPartialRun>& none,
                                          const std::vector<ValidatedPartialRun>& calibrated);

}  // namespace ptdp
