// Times messages and collectives between ranks that compute in between, as ranks of a plan do.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cost_model/inputs/measured_curve.h"
#include "kernels/backend.h"

namespace ptdp {

/// How messages and collectives are measured.
struct LinkMeasurement {
  int ranks = 2;
  std::int64_t largest_bytes = std::int64_t{16} << 20U;
  double seconds = 0.05;  ///< Approximate time for one size of one operation.
  std::function<std::unique_ptr<Backend>()> make_backend;
  /// Asked before every size; when true, the measurement ends with what it has.
  std::function<bool()> is_cancelled;
};

/// Times by size of each collective, for a MeasuredCurve. There are fewer when the run was
/// cancelled.
struct CollectiveTimes {
  std::vector<MeasuredPoint> all_reduce;
  std::vector<MeasuredPoint> reduce_scatter;
  std::vector<MeasuredPoint> all_gather;
};

/// Measures collectives from 8 bytes to the largest size, in steps of 16 times. All ranks multiply
/// a matrix that takes some 0.1 ms, then communicate. The result is how much longer this takes than
/// multiplying alone. So it contains the time in which ranks wait for each other and wake up. With
/// more ranks than cores it contains taking turns.
[[nodiscard]] CollectiveTimes time_collectives(const LinkMeasurement& run);

/// Measures an exchange between neighbors of a pipeline. Each computes, sends a message, and
/// receives one of the same size from the other.
[[nodiscard]] std::vector<MeasuredPoint> time_messages(const LinkMeasurement& run);

}  // namespace ptdp
