// Measurements that cannot all be right, found without any cost model.
#pragma once

#include <span>
#include <vector>

#include "cost_model/measured/measured_run.h"

namespace ptdp {

/// A run may take so many times the time of one with larger microbatches, which use a GPU no worse
/// …
inline constexpr double kMostOverLarger = 1.2;
/// … and so many times that of one with smaller ones.
inline constexpr double kMostOverSmaller = 1.06;

/// Time per sequence and slot of the pipeline, q = T/((m + p − 1)·b), where T = time of an
/// iteration, m = microbatches, p = pipeline stages, b = sequences per microbatch.
[[nodiscard]] Seconds slot_time(const MeasuredRun& run);

/// Which runs contradict themselves, in order; their configurations must have no shape violation.
/// In a series of runs that differ in b only, q falls slowly as b grows. A run contradicts itself
/// whose q is more than kMostOverLarger times that of a run of its series with a larger b, or more
/// than kMostOverSmaller times that of one with a smaller b: something other than its configuration
/// slowed it down.
[[nodiscard]] std::vector<bool> find_contradictions(std::span<const MeasuredRun> runs);

}  // namespace ptdp
