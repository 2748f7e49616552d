// Where each rank of a job stands, and which links the groups of a strategy cross.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/parallel_config.h"

namespace ptdp {

/// The dimensions along which ranks form groups, fastest first in the rank order tp-cp-ep-dp-pp
/// (experts are carved out of the data-parallel dimension and have no coordinate of their own).
enum class Dimension { kTensor, kContext, kData, kPipeline };

/// The ranks of a job as a grid: rank = tp + tp_size·(cp + cp_size·(dp + dp_size·pp)), which is the
/// order tp-cp-ep-dp-pp of Megatron-LM (parallel_state.py).
class RankGrid {
 public:
  using Coordinates = std::array<std::int64_t, 4>;  ///< Indexed by Dimension.

  explicit RankGrid(const ParallelConfig& config);

  [[nodiscard]] std::int64_t world_size() const { return world_size_; }
  [[nodiscard]] std::int64_t size(Dimension dimension) const;
  /// Distance in ranks between neighbours of a group.
  [[nodiscard]] std::int64_t stride(Dimension dimension) const;
  [[nodiscard]] Coordinates coordinates(std::int64_t rank) const;
  [[nodiscard]] std::int64_t rank(const Coordinates& coordinates) const;
  /// The ranks that differ from `rank` in one coordinate only, `rank` included, ascending.
  [[nodiscard]] std::vector<std::int64_t> group(Dimension dimension, std::int64_t rank) const;

 private:
  std::array<std::int64_t, 4> sizes_;
  std::array<std::int64_t, 4> strides_{};
  std::int64_t world_size_ = 1;
};

/// How a group of `size` ranks, `stride` apart, lies on nodes of consecutive ranks.
struct GroupPlacement {
  std::int64_t size = 1;
  /// Members that every node between its ends has at least: what a ring gathers NICs from.
  std::int64_t ranks_per_node = 1;
  std::int64_t nodes = 1;         ///< Nodes that it touches.
  double oversubscription = 1.0;  ///< Of the network tier that spans it.

  [[nodiscard]] bool is_within_node() const { return nodes == 1; }
};

/// Placement of the groups along a dimension of `grid` on `cluster`, for the group that starts at
/// rank 0; where sizes do not divide the node, other groups may straddle one node more.
[[nodiscard]] GroupPlacement place_group(const RankGrid& grid, Dimension dimension,
                                         const ClusterSpec& cluster);

}  // namespace ptdp
