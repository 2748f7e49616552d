#include "cost_model/spec/rank_grid.h"

#include <algorithm>
#include <cassert>
#include <numeric>

namespace ptdp {
namespace {

/// Groups of `size` ranks, `stride` apart, which fill `world` ranks.
GroupPlacement place(std::int64_t size, std::int64_t stride, std::int64_t world,
                     const ClusterSpec& cluster) {
  const std::int64_t node = cluster.gpus_per_node;
  GroupPlacement placement{.size = size, .ranks_per_node = size};
  if (size == 1) {
    return placement;
  }
  const std::int64_t span = (size - 1) * stride + 1;
  if (stride >= node) {
    placement.nodes = size;
    placement.ranks_per_node = 1;
  } else {
    // Groups begin at every rank of a stride, in blocks of size * stride ranks; where in a node
    // they begin repeats itself.
    const std::int64_t block = size * stride;
    const std::int64_t blocks = std::min(world / block, node / std::gcd(block, node));
    for (std::int64_t first = 0; first < blocks * stride; ++first) {
      const std::int64_t begin = (first / stride * block + first % stride) % node;
      const std::int64_t end = begin + span - 1;
      const std::int64_t nodes = end / node + 1;
      if (nodes > 1) {
        const std::int64_t on_first = (node - 1 - begin) / stride + 1;
        const std::int64_t on_last = end % node / stride + 1;
        const std::int64_t between = nodes > 2 ? node / stride : size;
        placement.nodes = std::max(placement.nodes, nodes);
        placement.ranks_per_node = std::min({placement.ranks_per_node, on_first, on_last, between});
      }
    }
  }
  if (placement.nodes > 1) {
    for (const NetworkTier& tier : cluster.network_tiers) {
      placement.oversubscription = tier.oversubscription;
      if (span <= tier.gpus) {
        break;
      }
    }
  }
  return placement;
}

}  // namespace

RankGrid::RankGrid(const ParallelConfig& config)
    : sizes_{config.tp, config.cp, config.dp, config.pp} {
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    strides_[i] = world_size_;
    world_size_ *= sizes_[i];
  }
}

std::int64_t RankGrid::size(Dimension dimension) const {
  return sizes_[static_cast<std::size_t>(dimension)];
}

std::int64_t RankGrid::stride(Dimension dimension) const {
  return strides_[static_cast<std::size_t>(dimension)];
}

RankGrid::Coordinates RankGrid::coordinates(std::int64_t rank) const {
  Coordinates result{};
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    result[i] = rank / strides_[i] % sizes_[i];
  }
  return result;
}

std::int64_t RankGrid::rank(const Coordinates& coordinates) const {
  std::int64_t result = 0;
  for (std::size_t i = 0; i < sizes_.size(); ++i) {
    result += coordinates[i] * strides_[i];
  }
  return result;
}

std::vector<std::int64_t> RankGrid::group(Dimension dimension, std::int64_t rank) const {
  const auto index = static_cast<std::size_t>(dimension);
  Coordinates member = coordinates(rank);
  std::vector<std::int64_t> ranks;
  for (member[index] = 0; member[index] < sizes_[index]; ++member[index]) {
    ranks.push_back(this->rank(member));
  }
  return ranks;
}

std::int64_t expert_data_size(const ParallelConfig& config) {
  const std::int64_t ranks = std::int64_t{1} * config.tp * config.cp * config.dp;
  const std::int64_t shared = std::int64_t{1} * config.etp * config.ep;
  assert(ranks % shared == 0);
  return ranks / shared;
}

GroupPlacement place_group(const RankGrid& grid, Dimension dimension, const ClusterSpec& cluster) {
  return place(grid.size(dimension), grid.stride(dimension), grid.world_size(), cluster);
}

GroupPlacement place_replicas(const RankGrid& grid, const ClusterSpec& cluster) {
  return place(grid.size(Dimension::kContext) * grid.size(Dimension::kData),
               grid.stride(Dimension::kContext), grid.world_size(), cluster);
}

GroupPlacement place_expert_group(const ParallelConfig& config, ExpertDimension dimension,
                                  const ClusterSpec& cluster) {
  const std::int64_t world = config.world_size();
  const std::int64_t both = std::int64_t{1} * config.etp * config.ep;
  switch (dimension) {
    case ExpertDimension::kTensor:
      return place(config.etp, 1, world, cluster);
    case ExpertDimension::kExpert:
      return place(config.ep, config.etp, world, cluster);
    case ExpertDimension::kTensorAndExpert:
      return place(both, 1, world, cluster);
    case ExpertDimension::kData:
      return place(expert_data_size(config), both, world, cluster);
  }
  return {};
}

}  // namespace ptdp
