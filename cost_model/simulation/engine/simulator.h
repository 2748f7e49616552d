// Times a schedule action by action.
#pragma once

#include <span>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Works through a schedule: every rank does its actions in order, each as soon as the one before
/// is done and its input is there. An overlapped pair starts when both inputs are there and lasts
/// as long as its actions one after the other: it is communication that it hides, and that is not
/// part of the durations. Messages between ranks arrive `p2p_latency` after they were made, any
/// number at a time, and keep nobody busy. `durations` are per virtual stage and not negative; one
/// stands for all stages. The schedule must be one that find_fault accepts up to its order, of
/// compute alone; throws Error with the rank and the action where it comes to a deadlock.
[[nodiscard]] SimulatedTimes simulate(const Schedule& schedule,
                                      std::span<const StageDurations> durations,
                                      Seconds p2p_latency = Seconds(0.0));

}  // namespace ptdp
