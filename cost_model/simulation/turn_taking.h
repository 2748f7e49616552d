// Steps in which messages and collectives take turns with compute.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Durations of a looped pipeline's virtual stages on `pp` ranks, in which a pass that is sent
/// takes longer by its message.
[[nodiscard]] std::vector<StageDurations> durations_with_sends(const StepTimes& times, int pp);

/// The passes of 1F1B where no rank has a longer pass than the last one; nothing elsewhere.
///
/// The last rank then never waits: each forward pass of the rank before it is done while it runs
/// its own two. So rank r begins after the forward passes of those before it, and ends when the
/// last one's m pairs, and the backward passes between them, are done.
[[nodiscard]] std::optional<SimulatedTimes> passes_paced_by_last_rank(
    const std::vector<StageDurations>& durations, std::int64_t num_microbatches);

/// The step of a looped pipeline whose passes alone take `passes`: gathers come before them, and
/// reductions, the tied embedding, the norm and the optimizer after them.
[[nodiscard]] SimulatedTimes with_ends(SimulatedTimes passes, const StepTimes& times,
                                       const StepActions& actions);

}  // namespace ptdp
