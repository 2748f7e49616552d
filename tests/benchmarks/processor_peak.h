// What one core of this machine can do at most: the ceilings of benchmarks.
#pragma once

namespace ptdp {

/// Multiply-adds in registers with the widest vectors, best of some runs [FLOP/s]. `Number` is
/// double or float.
template <class Number>
[[nodiscard]] double peak_flops();

/// Reading and writing arrays far larger than caches by memcpy, both counted [B/s].
[[nodiscard]] double copy_bandwidth();

}  // namespace ptdp
