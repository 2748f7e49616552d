// Repeated times, and what is robust of them.
#pragma once

#include <cstddef>
#include <vector>

namespace ptdp {

/// The median of the faster half: what is left when other processes took a core now and then. Of
/// one sample, that; `seconds` must not be empty.
[[nodiscard]] double quiet_time(std::vector<double> seconds);

/// The places of the middle half of `seconds` by size, one at least: neither what was disturbed nor
/// what was lucky.
[[nodiscard]] std::vector<std::size_t> middle_half(const std::vector<double>& seconds);

/// How far the slowest quarter begins above the fastest quarter's end, as a fraction of the median:
/// 0.02 on a quiet machine. 0 of fewer than four.
[[nodiscard]] double spread(std::vector<double> seconds);

}  // namespace ptdp
