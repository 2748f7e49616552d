// A pipeline whose ranks are more than the cores that compute for them.
#pragma once

#include <span>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Time until the passes of `pipelines` alike pipelines are done, all of whose ranks share `cores`
/// cores: a rank that waits for a message leaves its core, and of those that can compute the one
/// that could first takes it, for a pass. Messages take no time and no core. Source: list
/// scheduling, Graham, Bounds on multiprocessing timing anomalies (SIAM J. Appl. Math. 1969).
/// `durations`: by virtual stage. The schedule must be one that find_fault accepts.
[[nodiscard]] Seconds time_on_shared_cores(const Schedule& schedule,
                                           std::span<const StageDurations> durations, int pipelines,
                                           int cores);

}  // namespace ptdp
