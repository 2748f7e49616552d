// Which factor multiplies which prediction: out of published runs for a plan, out of the other rows
// for a row.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/measured/calibration.h"
#include "cost_model/measured/measured_run.h"
#include "cost_model/text/named_values.h"
#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// How the predictions of a set of rows are calibrated.
enum class CalibrationKind {
  kNone,              ///< Not at all: the cost model as it is.
  kShipped,           ///< As ptdp-plan would for that job: by published runs of other jobs.
  kLeaveOneOut,       ///< By the other rows of its scope.
  kLeaveOneGroupOut,  ///< By the rows of its scope that are not of its group.
  kScale              ///< By all rows of its scope, itself included: in-sample.
};
inline constexpr std::array kCalibrationKindNames = {
    NamedValue<CalibrationKind>{CalibrationKind::kNone, "none"},
    NamedValue<CalibrationKind>{CalibrationKind::kShipped, "shipped"},
    NamedValue<CalibrationKind>{CalibrationKind::kLeaveOneOut, "leave-one-out"},
    NamedValue<CalibrationKind>{CalibrationKind::kLeaveOneGroupOut, "leave-one-group-out"},
    NamedValue<CalibrationKind>{CalibrationKind::kScale, "scale"}};

/// A costed run as one that a factor can rest on.
[[nodiscard]] CalibrationRun calibration_run(const CostedRun& run);

/// Whose runs share a factor: a cluster and a stack, by name, and a kind of model. What routing,
/// dispatch and grouped products cost beyond the model says nothing about dense layers.
struct CalibrationScope {
  std::string cluster;
  std::string stack;
  bool has_experts = false;

  friend bool operator==(const CalibrationScope&, const CalibrationScope&) = default;
  friend bool operator<(const CalibrationScope& a, const CalibrationScope& b) {
    return std::tie(a.cluster, a.stack, a.has_experts) <
           std::tie(b.cluster, b.stack, b.has_experts);
  }
};
[[nodiscard]] CalibrationScope scope_of(const CostedRun& run);
[[nodiscard]] CalibrationScope scope_of(const Scenario& scenario);
/// "dgx-h100 + nemo-2024", of models with experts "dgx-h100 + nemo-2024, experts".
[[nodiscard]] std::string text_of(const CalibrationScope& scope);
/// Indices of runs by scope.
[[nodiscard]] std::map<CalibrationScope, std::vector<std::size_t>> by_scope(
    const std::vector<CostedRun>& runs);

/// The calibration of each run, in order.
[[nodiscard]] std::vector<Calibration> calibrations_of(const std::vector<CostedRun>& runs,
                                                       CalibrationKind kind);

/// The costed published runs of the scenario's kind of model on its cluster and stack, whatever
/// those are called.
[[nodiscard]] std::vector<CostedRun> published_runs_on(const MeasuredRuns& published,
                                                       const Scenario& scenario);

/// The fit of all runs but those of the scenario's model and batch on so many GPUs: a prediction
/// that stands beside a measurement was not fitted to it.
[[nodiscard]] CalibrationFit fit_leaving_out_job(const std::vector<CostedRun>& runs,
                                                 const Scenario& scenario, std::int64_t gpus);

/// fit_leaving_out_job(published_runs_on(…)): what ptdp-plan calibrates with.
[[nodiscard]] CalibrationFit calibrate_by_published(const MeasuredRuns& published,
                                                    const Scenario& scenario, std::int64_t gpus);

}  // namespace ptdp
