// Times of operations without those that contradict the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// What was left, and what was not: "forward-product: m 64, n 512, k 128, 20.8 us".
struct SteadyTimes {
  OperationTimes times;
  std::vector<std::string> left_out;
};

/// All times, after those of some operations were measured once more; none to give up.
using MeasureAgain = std::function<OperationTimes(const std::vector<OperationKey>&)>;

/// Lets what a table of `times` would refuse (find_outliers) be measured again, three times at
/// most, and leaves out what contradicts the others still. An operation at a single size has no
/// table. Throws Error(kRuntimeFault) where fewer than two, or than half, of the times of an
/// operation are left.
[[nodiscard]] SteadyTimes steady_times(OperationTimes times, const MeasureAgain& measure_again);

}  // namespace ptdp
