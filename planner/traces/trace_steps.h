// The iterations of a trace, as the GPU went through them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/traces/trace.h"

namespace ptdp {

/// A stretch of the trace that counts: an iteration, or the whole trace.
struct TraceWindow {
  std::int64_t number = 0;  ///< Of the iteration, as "ProfilerStep#7" names it.
  Nanoseconds start = 0;
  Nanoseconds end = 0;
};

/// The iterations that count.
struct TraceSteps {
  std::vector<TraceWindow> windows;  ///< In order of time, none overlapping another.
  bool are_marked = true;  ///< False for a trace without marks, which is one window as a whole.
  std::int64_t incomplete = 0;  ///< Marks left out since little or nothing ran in them.
  std::int64_t first_left_out =
      0;  ///< 1 if the first iteration is left out, which the profiler slows.
};

/// Returns the iterations. One begins on the GPU with the first kernel that the host launched in
/// it on the stream that computes most, and ends where the next one begins; the last one ends with
/// its last work or mark. The first is left out unless it is the only one.
[[nodiscard]] TraceSteps steps_of(const Trace& trace);

}  // namespace ptdp
