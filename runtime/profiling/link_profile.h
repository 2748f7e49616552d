// Times of messages and collectives between ranks that compute in between, as those of a plan do.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "cost_model/inputs/measured_curve.h"
#include "kernels/backend.h"

namespace ptdp {

/// How they are measured.
struct LinkRun {
  int ranks = 2;
  std::int64_t largest_bytes = std::int64_t{16} << 20U;
  double seconds = 0.05;  ///< For a size of an operation, about.
  std::function<std::unique_ptr<Backend>()> make_backend;
  std::function<bool()> is_cancelled;  ///< Asked before every size; ends with what there is.
};

/// Times by size, as a MeasuredCurve takes them; fewer where it was cancelled.
struct CollectiveTimes {
  std::vector<MeasuredPoint> all_reduce;
  std::vector<MeasuredPoint> reduce_scatter;
  std::vector<MeasuredPoint> all_gather;
};

/// From 8 bytes to the largest, in steps of 16. All ranks multiply a matrix that takes some 0.1 ms,
/// then communicate: what this takes longer than multiplying alone, so that it contains what ranks
/// wait for each other and for waking up. With more ranks than cores it is what it is then.
[[nodiscard]] CollectiveTimes time_collectives(const LinkRun& run);

/// An exchange between neighbours of a pipeline: each computes, sends, and receives what the other
/// sent, of one size.
[[nodiscard]] std::vector<MeasuredPoint> time_messages(const LinkRun& run);

}  // namespace ptdp
