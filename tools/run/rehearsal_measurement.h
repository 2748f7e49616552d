// Turns what the rehearsal of a rank measured into the values that are composed and reported.
#pragma once

#include <vector>

#include "cost_model/memory/memory.h"
#include "planner/runs/rehearsal_composition.h"
#include "planner/runs/rehearsal_report.h"
#include "runtime/executor/training_settings.h"
#include "runtime/rehearsal/rehearsal.h"

namespace ptdp {

/// Returns the rank's medians over the recorded steps: times of passes without the collectives in
/// them, of the norm and of the optimizer. `rank` is a pipeline rank.
[[nodiscard]] RehearsedTimes rehearsed_times(const TrainingSettings& settings, int rank,
                                             const RehearsalRecord& record);

/// Compares allocated memory with the prediction, by category. The prediction excludes the stack's
/// reserve.
[[nodiscard]] std::vector<RehearsedMemory> compare_rehearsed_memory(
    const MemoryBreakdown& predicted, const RehearsalRecord& record);

/// Compares the rehearsed rank with its prediction, except for its memory. `plan` is the full-size
/// plan that was composed; `settings` are those with which the rank was rehearsed.
[[nodiscard]] RehearsedRank rehearsed_rank(const Plan& plan, const TrainingSettings& settings,
                                           const RehearsedTimes& times,
                                           const RehearsalRecord& record,
                                           const Composition& composition);

}  // namespace ptdp
