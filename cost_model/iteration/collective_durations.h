// What of the durations of actions tensor-parallel collectives are.
#pragma once

#include <vector>

#include "cost_model/simulation/step_times.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// Returns the time in which collectives are exposed in the passes that step_times() has with the
/// same arguments: those of sharding_time, and of the tensor-parallel group: of the layers in both
/// passes and what is recomputed, of the embedding and of the logits; with what their members lose
/// by waiting for the slowest (ComputeFactors::skew), for the logits all of it in the input
/// gradient. Weight gradients have none. The rest is compute.
[[nodiscard]] std::vector<StageDurations> virtual_stage_collectives(const PlannedJob& job);

}  // namespace ptdp
