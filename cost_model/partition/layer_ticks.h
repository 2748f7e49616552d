// What the ways of cutting a list of layers share: costs as integers.
#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/partition/partition.h"

namespace ptdp {

/// Prefix sums of layer costs as integers: layers i … j−1 take time[j] − time[i].
struct LayerTicks {
  /// Time before each layer, and in total (at most 2^62), in ticks (a power of two of seconds).
  std::vector<std::int64_t> time;
  std::vector<std::int64_t> memory;  ///< Memory before each layer, and in total [B].
  /// What a microbatch keeps of the layers before each layer, and in total [B].
  std::vector<std::int64_t> kept;
  std::vector<double> in_flight;  ///< Microbatches in flight on each rank; empty: none count.
  std::int64_t memory_limit = 0;  ///< Most memory of a rank [B].

  [[nodiscard]] int num_layers() const { return static_cast<int>(time.size()) - 1; }
  [[nodiscard]] std::int64_t total() const { return time.back(); }
  /// Returns the memory that layers `first` … `end`−1 take on a rank [B].
  [[nodiscard]] std::int64_t memory_of(int rank, int first, int end) const {
    const std::int64_t always = memory[end] - memory[first];
    return in_flight.empty() ? always
                             : always + std::llround(in_flight[rank] *
                                                     static_cast<double>(kept[end] - kept[first]));
  }
  /// Returns the layers with memory that does not matter.
  [[nodiscard]] LayerTicks without_memory() const;
  /// Returns the longest time of a single layer, in ticks.
  [[nodiscard]] std::int64_t longest() const;
};

/// Returns numerator / denominator rounded up. The numerator must not be negative; the denominator
/// must be positive.
[[nodiscard]] constexpr std::int64_t divided_up(std::int64_t numerator, std::int64_t denominator) {
  return numerator / denominator + (numerator % denominator != 0 ? 1 : 0);
}

/// Cuts into `parts` contiguous parts as partition_layers() does with vpp = 1. `parts` is at most
/// the number of layers.
[[nodiscard]] std::optional<std::vector<int>> cut_contiguously(const LayerTicks& ticks, int parts);

/// Returns a lower bound of the slowest rank's time, between `low` and `high`. Some partition must
/// reach `high`. The bound is the least sum of layers that, as a limit, lets `ranks` ranks hold all
/// layers in any order. Returns `low` when layers are of too many kinds to tell.
[[nodiscard]] std::int64_t rank_time_bound(const LayerTicks& ticks, int ranks, std::int64_t low,
                                           std::int64_t high);

/// Cuts as partition_layers() does with vpp > 1, by exhaustive search, whatever the layers. Throws
/// Error for more than 2048 layers or when it takes more than request.most_steps.
[[nodiscard]] std::optional<std::vector<int>> cut_by_search(const LayerTicks& ticks,
                                                            const PartitionRequest& request);

}  // namespace ptdp
