// Measures what one core of this machine can do at most: the ceilings of benchmarks.
#pragma once

namespace ptdp {

/// Returns the best rate of multiply-adds in registers with the widest vectors [FLOP/s]. `Number`
/// is double or float.
template <class Number>
[[nodiscard]] double peak_flops();

/// Returns the rate of copying arrays far larger than caches by memcpy, reads and writes both
/// counted [B/s].
[[nodiscard]] double copy_bandwidth();

}  // namespace ptdp
