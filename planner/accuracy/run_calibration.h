// Which factor multiplies which prediction: one from published runs for a plan, one from other rows
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
  kNone,              ///< No calibration: the cost model as it is.
  kShipped,           ///< Calibrated by published runs of other jobs, as ptdp-plan would.
  kLeaveOneOut,       ///< Calibrated by the other rows of the row's scope.
  kLeaveOneGroupOut,  ///< Calibrated by rows of the row's scope that are not of its group.
  kScale              ///< Calibrated by all rows of the row's scope, itself included: in-sample.
};
/// Names of the kinds of calibration, as flags and documents have them.
inline constexpr std::array kCalibrationKindNames = {
    NamedValue<CalibrationKind>{CalibrationKind::kNone, "none"},
    NamedValue<CalibrationKind>{CalibrationKind::kShipped, "shipped"},
    NamedValue<CalibrationKind>{CalibrationKind::kLeaveOneOut, "leave-one-out"},
    NamedValue<CalibrationKind>{CalibrationKind::kLeaveOneGroupOut, "leave-one-group-out"},
    NamedValue<CalibrationKind>{CalibrationKind::kScale, "scale"}};

/// Returns a costed run as one that a factor can rest on.
[[nodiscard]] CalibrationRun calibration_run(const CostedRun& run);

/// The runs that share a factor: those of one cluster, stack and kind of model. Models with experts
/// are a kind of their own: what routing, dispatch and grouped products cost beyond the cost model
/// says nothing about dense layers.
struct CalibrationScope {
  std::string cluster;  ///< Name of the cluster.
  std::string stack;    ///< Name of the stack.
  bool has_experts = false;

  friend bool operator==(const CalibrationScope&, const CalibrationScope&) = default;
  friend bool operator<(const CalibrationScope& a, const CalibrationScope& b) {
    return std::tie(a.cluster, a.stack, a.has_experts) <
           std::tie(b.cluster, b.stack, b.has_experts);
  }
};
/// Returns the scope of a run.
[[nodiscard]] CalibrationScope scope_of(const CostedRun& run);
/// Returns the scope of a scenario.
[[nodiscard]] CalibrationScope scope_of(const Scenario& scenario);
/// Returns a scope for people: "dgx-h100 + nemo-2024", for models with experts
/// "dgx-h100 + nemo-2024, experts".
[[nodiscard]] std::string text_of(const CalibrationScope& scope);
/// Returns the indices of runs by scope.
[[nodiscard]] std::map<CalibrationScope, std::vector<std::size_t>> by_scope(
    const std::vector<CostedRun>& runs);

/// Returns the calibration of each run, in order.
[[nodiscard]] std::vector<Calibration> calibrations_of(const std::vector<CostedRun>& runs,
                                                       CalibrationKind kind);

/// Costs the published runs of the scenario's kind of model on its cluster and stack, whatever
/// these are called.
[[nodiscard]] std::vector<CostedRun> published_runs_on(const MeasuredRuns& published,
                                                       const Scenario& scenario);

/// Fits all runs but those of the scenario's model and batch on `gpus` GPUs. A prediction that
/// stands beside a measurement is thus not fitted to it.
[[nodiscard]] CalibrationFit fit_leaving_out_job(const std::vector<CostedRun>& runs,
                                                 const Scenario& scenario, std::int64_t gpus);

/// Fits the calibration of ptdp-plan: published runs on the scenario's cluster and stack, without
/// those of its job.
[[nodiscard]] CalibrationFit calibrate_by_published(const MeasuredRuns& published,
                                                    const Scenario& scenario, std::int64_t gpus);

}  // namespace ptdp
