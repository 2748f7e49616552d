// Where the time of iterations went on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "planner/traces/trace.h"
#include "planner/traces/trace_steps.h"

namespace ptdp {

/// A stretch of time in which the GPU worked for one of several purposes.
struct BusySpan {
  Nanoseconds start = 0;
  Nanoseconds end = 0;
  std::size_t purpose = 0;
};

/// The time of a window by purpose, each as long as there are purposes.
struct SweptWindow {
  std::vector<Nanoseconds> alone;  ///< Time that counts for a purpose; these and idle add up.
  std::vector<Nanoseconds> busy;   ///< Time in which any work for a purpose ran.
  Nanoseconds idle = 0;            ///< Time in which nothing ran.
};

/// Sweeps over spans, which may overlap and come in any order. Of two purposes at once the smaller
/// number counts. The windows must be in order and must not overlap.
[[nodiscard]] std::vector<SweptWindow> sweep(std::span<const BusySpan> spans,
                                             std::span<const TraceWindow> windows,
                                             std::size_t purposes);

}  // namespace ptdp
