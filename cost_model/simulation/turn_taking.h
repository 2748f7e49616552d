// Times of steps in which messages and collectives take turns with compute.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/schedule/passes/communication.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Returns the durations of a looped pipeline's virtual stages on `pp` ranks, with the message of
/// each pass that is sent added to that pass.
[[nodiscard]] std::vector<StageDurations> durations_with_sends(const StepTimes& times, int pp);

/// Returns the times of 1F1B's passes if the last rank paces them; nullopt otherwise. It paces them
/// if its pair of passes is the longest, and no forward pass is longer than the shortest pair.
///
/// The last rank then never waits, by induction over ranks. While it runs a pair, the rank before
/// it runs one, too: the backward pass that it was just sent, and the next forward pass. The
/// forward passes that fill the pipeline end before the first backward pass arrives. So rank r
/// begins after the forward passes of the ranks before it. It ends when the last rank's m pairs,
/// and the backward passes between the two ranks, are done.
[[nodiscard]] std::optional<SimulatedTimes> passes_paced_by_last_rank(
    const std::vector<StageDurations>& durations, std::int64_t num_microbatches);

/// Returns the step of a looped pipeline whose passes alone take `passes`. Gathers come before the
/// passes, and reductions, the tied embedding, the norm and the optimizer after them. The vectors
/// that it uses of `times` and `actions` must have an entry for each stage or rank: one does not
/// stand for all.
[[nodiscard]] SimulatedTimes with_ends(SimulatedTimes passes, const StepTimes& times,
                                       const StepActions& actions);

}  // namespace ptdp
