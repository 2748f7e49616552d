// What the two ways of cutting a list of layers share: costs as integers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/partition/partition.h"

namespace ptdp {

/// Sums of the costs before each layer, so that layers i … j−1 take time[j] − time[i]; the total is
/// at most 2^62.
struct LayerTicks {
  std::vector<std::int64_t> time;
  std::vector<std::int64_t> memory;
  std::int64_t memory_limit = 0;

  [[nodiscard]] int num_layers() const { return static_cast<int>(time.size()) - 1; }
  [[nodiscard]] std::int64_t total() const { return time.back(); }
  /// The most that a layer takes.
  [[nodiscard]] std::int64_t longest() const;
};

/// Numerator over a positive denominator, rounded up; neither is negative.
[[nodiscard]] constexpr std::int64_t divided_up(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
}

/// partition_layers with vpp = 1; `parts` is at most the number of layers.
[[nodiscard]] std::optional<std::vector<int>> cut_contiguously(const LayerTicks& ticks, int parts);

/// A lower bound of the slowest rank's time, from `low` to `high`, which some partition reaches:
/// the least sum of layers that, as a limit, lets so many ranks hold all layers in any order; `low`
/// where layers are of too many kinds to tell.
[[nodiscard]] std::int64_t rank_time_bound(const LayerTicks& ticks, int ranks, std::int64_t low,
                                           std::int64_t high);

/// partition_layers with vpp > 1, whatever the layers.
[[nodiscard]] std::optional<std::vector<int>> cut_by_search(const LayerTicks& ticks,
                                                            const PartitionRequest& request);

}  // namespace ptdp
