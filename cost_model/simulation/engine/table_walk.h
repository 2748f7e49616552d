// How the fast simulators lay out and walk their tables.
#pragma once

#include <cstddef>

namespace ptdp {

/// How far ahead of a rank its actions are fetched: with a thousand ranks in turn, the processor
/// does not see by itself that each one walks straight on.
inline constexpr std::size_t kActionsAhead = 8;

/// Slots of a stage in the tables of all: its microbatches and some room, an odd number of cache
/// lines of doubles, so that neighbouring stages do not share the same few sets of the caches.
[[nodiscard]] constexpr std::size_t stride_of(int num_microbatches) {
  constexpr std::size_t per_line = 8;
  const std::size_t lines = static_cast<std::size_t>(num_microbatches) / per_line + 1;
  return (lines | 1U) * per_line;
}

}  // namespace ptdp
