// The step of a plan for a list of layers, action by action.
#pragma once

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/analysis/critical_path.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"
#include "planner/partition_report/layer_plans.h"

namespace ptdp {

/// A simulated step of one pipeline of a list.
struct ListedStep {
  Schedule schedule;  ///< The complete schedule: with messages, reductions and the optimizer.
  StepTimes times;    ///< Durations of the actions.
  Timeline timeline;
  CriticalPath critical_path;
};

/// Simulates all microbatches of a plan's step. Searches take steps of many microbatches from their
/// rhythm, so their times may differ a little.
[[nodiscard]] ListedStep simulate_listed_step(const LayerSearch& search, const LayerPlan& plan);

}  // namespace ptdp
