// The report of a run of ptdp-run, and of several.
#pragma once

#include <optional>
#include <vector>

#include "planner/plan/plan_simulation.h"
#include "planner/report/report.h"
#include "planner/runs/run_report.h"
#include "planner/runs/run_set.h"

namespace ptdp {

/// A step of one pipeline as it ran.
struct RecordedStep {
  Schedule schedule;
  Timeline timeline;  ///< Spans of the actions of `schedule`.
  MessageMode messages = MessageMode::kOverlapped;
};

/// What a run recorded beside its report, as far as it is known.
struct RunRecording {
  std::vector<double> step_seconds;         ///< Time of each step, warm-up included; or empty.
  std::optional<RecordedStep> step;         ///< A step, action by action.
  std::optional<PlanSimulation> predicted;  ///< The step as predicted.
};

/// Returns the report of a run: measured beside predicted, by term, action, memory and bytes; loss
/// and times by step; the recorded step below the predicted one.
[[nodiscard]] Report run_page(const RunReport& run, const RunRecording& recording);

/// Returns the report of several runs: measured over predicted times, and errors by term.
[[nodiscard]] Report run_set_page(const RunSet& set);

}  // namespace ptdp
