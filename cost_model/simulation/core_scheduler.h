// Times a pipeline whose ranks are more than the cores that compute for them.
#pragma once

#include <span>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Returns the time until the passes of `pipelines` alike pipelines are done, if all their ranks
/// share `cores` cores. A rank that waits for a message leaves its core. Of those that can compute,
/// the one that could first takes the core, for one pass. Messages take no time and no core.
///
/// `durations` are by virtual stage; one stands for all. The schedule must be one that find_fault()
/// accepts. Source: list scheduling, Graham, Bounds on multiprocessing timing anomalies (SIAM J.
/// Appl. Math. 1969).
[[nodiscard]] Seconds time_on_shared_cores(const Schedule& schedule,
                                           std::span<const StageDurations> durations, int pipelines,
                                           int cores);

}  // namespace ptdp
