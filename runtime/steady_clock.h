// The clock of everything that waits, watches and measures.
#pragma once

#include <chrono>
#include <cstdint>

#include "cost_model/units.h"

namespace ptdp {

/// Returns the steady clock's time [ns]. Its zero is arbitrary but common to all threads.
[[nodiscard]] inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// Converts a time [s] to a duration of the steady clock.
[[nodiscard]] inline std::chrono::steady_clock::duration steady_duration(Seconds time) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(time.value()));
}

/// Converts a time [s] to whole nanoseconds, truncated.
[[nodiscard]] inline std::int64_t nanoseconds(Seconds time) {
  return static_cast<std::int64_t>(time.value() * 1e9);
}

}  // namespace ptdp
