// Predicts measured runs whose sources leave fields out, over everything that these may have been.
#pragma once

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// Moves the skipped rows that can be completed (completions.h) from `runs.skipped` to
/// `runs.partial`. Each has the completions that can be costed and fit into memory. When none fits,
/// it has all that can be costed, since the measured run did fit. A row stays skipped with the
/// reason when none of its completions can be costed. A row that lacks anything else stays skipped
/// as it was.
///
/// The measured time is iter_time_best_s. Without one, it follows for each completion from
/// tflops_per_gpu by the row's flop_convention: "model_full", "sc21_hw", or "hardware"
/// (hardware_flops()).
void complete_partial_runs(CostedRuns& runs);

}  // namespace ptdp
