// How long the passes of each virtual stage take.
#pragma once

#include <vector>

#include "cost_model/simulation/step_times.h"
#include "cost_model/stage/planned_job.h"
#include "cost_model/stage/stage.h"

namespace ptdp {

/// Durations of every virtual stage's actions, in model order: the layers with what is recomputed
/// of them (part of both backward and input gradient), the embedding in the first and the logits in
/// the last, the stack's overhead in the forward pass. Without the accumulation of gradients.
[[nodiscard]] std::vector<StageDurations> virtual_stage_durations(const PlannedJob& job);

}  // namespace ptdp
