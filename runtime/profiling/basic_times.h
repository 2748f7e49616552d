// What a device does besides the layers of a model: copies, square products, single launches.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// Copies of so many bytes within the device's memory, as of 4-byte elements.
[[nodiscard]] OperationTimes time_copies(Backend& backend, const std::vector<std::int64_t>& sizes);
/// One of them: its operation's sizes and seconds.
[[nodiscard]] double time_copy(Backend& backend, double width);

/// A product of two square matrices of random numbers, which let a GPU take the power that it takes
/// in training.
[[nodiscard]] FlopsPerSecond rate_of_products(Backend& backend, DataType type, std::int64_t size);

/// Forms such products for so many seconds: a GPU that was idle has another clock.
void warm_up(Backend& backend, DataType type, std::int64_t size, double seconds,
             const std::function<bool()>& is_cancelled);

/// The smallest operation, in seconds.
struct LaunchTimes {
  double device = 0.0;    ///< On the device, in a row of them that are launched together.
  double by_one = 0.0;    ///< In a row, launched one by one,
  double of_host = 0.0;   ///< of which the launching thread takes so much.
  double in_graph = 0.0;  ///< What it takes of the launching thread as part of a graph.
};
[[nodiscard]] LaunchTimes time_launches(Backend& backend);

/// Bytes per second from and to the memory of the host, which is not pinned.
struct HostCopyRates {
  std::int64_t bytes = 0;
  BytesPerSecond in;
  BytesPerSecond out;
};
[[nodiscard]] HostCopyRates rate_host_copies(Backend& backend, std::int64_t bytes);

}  // namespace ptdp
