// How much of the durations of actions is communication.
#pragma once

#include <vector>

#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Returns how long collectives are exposed in the passes that step_times() has for the same job;
/// the rest of the passes is compute. The collectives are those of sharding_time() and of layers
/// (in both passes and in what is recomputed), embedding and logits. Waiting for the slowest member
/// is included (ComputeFactors::skew); for the logits all of it is in the input gradient. Weight
/// gradients have none.
[[nodiscard]] std::vector<StageDurations> virtual_stage_collectives(const PlannedJob& job);

}  // namespace ptdp
