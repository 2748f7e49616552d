// Measured runs whose sources leave fields out, predicted over everything that these may have been.
#pragma once

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// Moves the skipped rows that can be completed (completions.h) to `runs.partial`, each with its
/// completions that can be costed and fit into memory; where none fits, all that can be costed: the
/// run did fit. A row none of whose completions can be costed stays skipped, with the reason; one
/// that lacks anything else stays skipped as it was.
///
/// The time measured is iter_time_best_s; where there is none, what tflops_per_gpu means by the
/// row's flop_convention ("model_full", "sc21_hw", "hardware": hardware_flops()) for the
/// completion.
void complete_partial_runs(CostedRuns& runs);

}  // namespace ptdp
