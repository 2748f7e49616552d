// Predicted against measured, as tables and as JSON.
#pragma once

#include <string>
#include <vector>

#include "planner/validation.h"

namespace ptdp {

/// Errors of the runs of one group, under the three ways of predicting.
struct GroupErrors {
  std::string group;
  ErrorSummary uncalibrated;
  ErrorSummary in_sample;
  ErrorSummary leave_one_out;
};

struct ValidationReport {
  CostedRuns runs;
  RunErrors errors;                 ///< Of runs.costed, in order.
  std::vector<GroupErrors> groups;  ///< By name; the last one, "all", holds every run.
};

[[nodiscard]] ValidationReport make_validation_report(const MeasuredRuns& runs);

[[nodiscard]] std::string to_table(const ValidationReport& report);
/// `ptdp.validation/1`, described in planner/README.md.
[[nodiscard]] std::string to_json(const ValidationReport& report);

}  // namespace ptdp
