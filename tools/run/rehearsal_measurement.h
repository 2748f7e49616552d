// What the rehearsal of a rank measured, as it is composed and reported.
#pragma once

#include <vector>

#include "cost_model/memory/memory.h"
#include "planner/runs/rehearsal_composition.h"
#include "planner/runs/rehearsal_report.h"
#include "runtime/executor/training_settings.h"
#include "runtime/rehearsal/rehearsal.h"

namespace ptdp {

/// The medians over the recorded steps: of passes without the collectives in them, of the norm and
/// the optimizer. `rank`: of the pipeline.
[[nodiscard]] RehearsedTimes rehearsed_times(const TrainingSettings& settings, int rank,
                                             const RehearsalRecord& record);

/// What was allocated, by category, beside what is predicted without the stack's reserve.
[[nodiscard]] std::vector<RehearsedMemory> compare_rehearsed_memory(
    const MemoryBreakdown& predicted, const RehearsalRecord& record);

/// The rank beside what is predicted of it, but for its memory. `plan`: at full size, as it was
/// composed; `settings`: as the rank was rehearsed.
[[nodiscard]] RehearsedRank rehearsed_rank(const Plan& plan, const TrainingSettings& settings,
                                           const RehearsedTimes& times,
                                           const RehearsalRecord& record,
                                           const Composition& composition);

}  // namespace ptdp
