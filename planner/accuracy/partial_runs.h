// Predicts measured runs whose sources leave fields out, over everything that these may have been.
#pragma once

#include "planner/accuracy/costed_runs.h"

namespace ptdp {

/// How much longer than the fastest way a way may take that counts: measured runs took no longer.
/// Of 202 published rows that tell all, with recomputation, microbatch and virtual stages left out,
/// 95 % take up to 1.22 times as long as the fastest way to fill these in, 99 % up to 1.30.
inline constexpr double kNearTheFastest = 1.3;

/// Moves the skipped rows that can be completed (missing_fields.h) from `runs.skipped` to
/// `runs.partial`. Each has the ways that can be costed, fit into memory, and take at most
/// kNearTheFastest times as long as the fastest. When none fits, all that can be costed count,
/// since the measured run did fit. A row stays skipped with the reason when none of its ways can be
/// costed. A row that lacks anything else stays skipped as it was.
///
/// The measured time is iter_time_best_s. Without one, it follows for each completion from
/// tflops_per_gpu by the row's flop_convention: "model_full", "sc21_hw", or "hardware"
/// (hardware_flops()).
void complete_partial_runs(CostedRuns& runs);

}  // namespace ptdp
