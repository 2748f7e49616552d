// The clock of everything that waits, watches and measures.
#pragma once

#include <chrono>
#include <cstdint>

#include "cost_model/units.h"

namespace ptdp {

/// Time [ns] of the steady clock: from a start of its own, the same for all threads.
[[nodiscard]] inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// A time as the steady clock counts it.
[[nodiscard]] inline std::chrono::steady_clock::duration steady_duration(Seconds time) {
  return std::chrono::duration_cast<std::chrono::steady_clock::duration>(
      std::chrono::duration<double>(time.value()));
}

/// A time in nanoseconds, cut.
[[nodiscard]] inline std::int64_t nanoseconds(Seconds time) {
  return static_cast<std::int64_t>(time.value() * 1e9);
}

}  // namespace ptdp
