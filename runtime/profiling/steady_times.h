// Removes times of operations that contradict the others.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// Times that agree with each other, and those left out as "forward-product: m 64, n 512, k 128,
/// 20.8 us".
struct SteadyTimes {
  OperationTimes times;
  std::vector<std::string> left_out;
};

/// A function that measures some operations once more, and returns the times of all; none to give
/// up.
using MeasureAgain = std::function<OperationTimes(const std::vector<OperationKey>&)>;

/// Removes times that a table would refuse (find_outliers). They are measured again, three times at
/// most, and left out if they still contradict the others. An operation at a single size has no
/// table. Throws Error(kRuntimeFault) when fewer than two, or than half, of an operation's times
/// are left.
[[nodiscard]] SteadyTimes steady_times(OperationTimes times, const MeasureAgain& measure_again);

}  // namespace ptdp
