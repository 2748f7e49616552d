// How much longer a step takes where one rank is slower.
#pragma once

#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/analysis/critical_path.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// By rank, the elasticity of the step: by how many percent it is longer per percent by which the
/// rank's compute is. It is the share of the rank's F, B, I, W and R of the critical path: the
/// derivative d ln(step) / d ln(duration), in one pass and for all ranks at once. Where several
/// paths are critical it is that of the path which `path` follows, from below the true derivative
/// upwards; where transfers share links it leaves out what the shift does to sharing. A rank stands
/// for its replicas and tensor-parallel group, all of them slower.
[[nodiscard]] std::vector<double> slowdown_elasticities(const CriticalPath& path);

/// What one rank slower by `factor` (above 0; of the time of its compute) does to the step exactly:
/// its time over that without, less 1. Simulates twice.
[[nodiscard]] double slowdown_effect(const Schedule& schedule, const StepTimes& times, int rank,
                                     double factor);

}  // namespace ptdp
