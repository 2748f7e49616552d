// Measurements that cannot all be right, found without any cost model.
#pragma once

#include <span>
#include <vector>

#include "cost_model/measured/measured_run.h"

namespace ptdp {

/// Largest plausible slot_time() of a run over that of a run with larger microbatches, which use a
/// GPU no worse.
inline constexpr double kMostOverLarger = 1.2;
/// Largest plausible slot_time() of a run over that of a run with smaller microbatches.
inline constexpr double kMostOverSmaller = 1.06;

/// Returns the time per sequence and slot of the pipeline, q = T/((m + p − 1)·b).
///
/// T = time of an iteration, m = microbatches, p = pipeline stages, b = sequences per microbatch.
[[nodiscard]] Seconds slot_time(const MeasuredRun& run);

/// Returns for each run, in order, whether other runs contradict it. Configurations must have no
/// shape violation.
///
/// In a series of runs that differ in the microbatch size b only, q = slot_time() falls slowly as b
/// grows. A run is contradicted if its q is over kMostOverLarger times that of a run with a larger
/// b. It is also contradicted if its q is over kMostOverSmaller times that of a run with a smaller
/// b. Something other than its configuration slowed it down.
[[nodiscard]] std::vector<bool> find_contradictions(std::span<const MeasuredRun> runs);

}  // namespace ptdp
