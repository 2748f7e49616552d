// Times what a device does besides the layers of a model: copies, square products, single launches.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "runtime/profiling/layer_profile.h"

namespace ptdp {

/// Returns the times of copies of these sizes [B] within the device's memory. Their keys count
/// 4-byte elements.
[[nodiscard]] OperationTimes time_copies(Backend& backend, const std::vector<std::int64_t>& sizes);
/// Returns the time [s] of a copy of `width` 4-byte elements within the device's memory.
[[nodiscard]] double time_copy(Backend& backend, double width);

/// Returns the rate of a product of two square matrices. They hold random numbers, so that a GPU
/// takes the power that it takes in training.
[[nodiscard]] FlopsPerSecond rate_of_products(Backend& backend, DataType type, std::int64_t size);

/// Forms products of two square matrices for `seconds`, or until cancelled. A GPU that was idle has
/// another clock.
void warm_up(Backend& backend, DataType type, std::int64_t size, double seconds,
             const std::function<bool()>& is_cancelled);

/// Times of the smallest operation [s].
struct LaunchTimes {
  double device = 0.0;   ///< Time on the device, in a row of operations that are launched together.
  double by_one = 0.0;   ///< Time in a row of operations that are launched one by one.
  double of_host = 0.0;  ///< Time of the launching thread for an operation launched by itself.
  double in_graph = 0.0;  ///< Time of the launching thread for an operation in a graph.
};
/// Measures the smallest operation, launched one by one and in graphs.
[[nodiscard]] LaunchTimes time_launches(Backend& backend);

/// Rates of copies between a device and the host's memory, which is not pinned.
struct HostCopyRates {
  /// Size of a copy [B].
  std::int64_t bytes = 0;
  /// Rate from the host to the device.
  BytesPerSecond in;
  /// Rate from the device to the host.
  BytesPerSecond out;
};
/// Measures copies of `bytes` between the device and the host.
[[nodiscard]] HostCopyRates rate_host_copies(Backend& backend, std::int64_t bytes);

}  // namespace ptdp
