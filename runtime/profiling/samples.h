// Robust statistics of repeated times.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ptdp {

/// Returns the median of the faster half of `seconds`, which must not be empty. It ignores samples
/// during which other processes took a core.
[[nodiscard]] double quiet_time(std::vector<double> seconds);

/// Returns the indices of the middle half of `seconds` by size, at least one. The samples left out
/// were disturbed or lucky.
[[nodiscard]] std::vector<std::size_t> middle_half(const std::vector<double>& seconds);

/// Returns the distance from the fastest quarter's end to the slowest quarter's beginning, as a
/// fraction of the median: 0.02 on a quiet machine. Returns nullopt for fewer than four samples.
[[nodiscard]] std::optional<double> spread(std::vector<double> seconds);

}  // namespace ptdp
