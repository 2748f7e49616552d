// Predicts measured runs whose sources leave fields out, for the likely ways to fill them in.
#pragma once

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// How many times as long as the fastest way a way may be predicted to take that counts. The number
/// is what published rows that tell all say (PARTIAL_ROWS.md).
inline constexpr double kNearTheFastest = 1.3;

/// Moves the skipped rows that can be completed (missing_fields.h) from `runs.skipped` to
/// `runs.partial`. Each has the ways that can be costed, fit into memory, and take at most
/// kNearTheFastest times the GPU time per sequence of the fastest. When none fits, the ways that do
/// not are taken, since the measured run did fit. A row stays skipped with the reason when none of
/// its ways can be costed. A row that lacks anything else stays skipped as it was.
///
/// The measured time is iter_time_best_s. Without one, it follows for each completion from
/// tflops_per_gpu by the row's flop_convention: "model_full", "sc21_hw", or "hardware"
/// (hardware_flops()).
void complete_partial_runs(CostedRuns& runs);

}  // namespace ptdp
