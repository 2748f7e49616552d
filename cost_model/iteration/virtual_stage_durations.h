// How long the passes of each virtual stage take.
#pragma once

#include <vector>

#include "cost_model/pipeline_rank/planned_job.h"
#include "cost_model/pipeline_rank/rank_costs.h"
#include "cost_model/simulation/step_times.h"

namespace ptdp {

/// Returns the durations of every virtual stage's actions per microbatch, in model order. They
/// cover its layers, the embedding in the first and the logits in the last. Recomputation is part
/// of both the backward pass and the input gradient; the stack's overhead is part of the forward
/// pass. Accumulating gradients is left out.
[[nodiscard]] std::vector<StageDurations> virtual_stage_durations(const PlannedJob& job);

}  // namespace ptdp
