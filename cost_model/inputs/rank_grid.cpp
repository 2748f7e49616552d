#include "cost_model/inputs/rank_grid.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <numeric>
#include <utility>

namespace ptdp {
namespace {

/// Returns the oversubscription of the lowest network tier that spans `ranks` neighboring ranks.
double oversubscription_over(std::int64_t ranks, const ClusterSpec& cluster) {
  double oversubscription = 1.0;
  for (const NetworkTier& tier : cluster.network_tiers) {
    oversubscription = tier.oversubscription;
    if (ranks <= tier.gpus) {
      break;
    }
  }
  return oversubscription;
}

}  // namespace

double oversubscription_between(std::int64_t rank, std::int64_t other, const ClusterSpec& cluster) {
  double oversubscription = 1.0;
  for (const NetworkTier& tier : cluster.network_tiers) {
    oversubscription = tier.oversubscription;
    if (rank / tier.gpus == other / tier.gpus) {
      break;
    }
  }
  return oversubscription;
}

std::int64_t gpus_taken_per_node(const ClusterSpec& cluster, std::int64_t world) {
  const std::int64_t node = cluster.gpus_per_node;
  if (cluster.gpus_per_tray > 0 && world > node) {
    for (std::int64_t taken = node; taken > 0; taken -= cluster.gpus_per_tray) {
      if (world % taken == 0) {
        return taken;
      }
    }
  }
  return node;
}

namespace {

/// Places groups of `size` ranks, `stride` apart, that together are `world` ranks.
GroupPlacement place(std::int64_t size, std::int64_t stride, std::int64_t world,
                     const ClusterSpec& cluster) {
  const std::int64_t node = gpus_taken_per_node(cluster, world);
  GroupPlacement placement{.size = size, .ranks_per_node = size, .is_alone = size == world};
  if (size == 1) {
    return placement;
  }
  const std::int64_t span = (size - 1) * stride + 1;
  if (stride >= node) {
    placement.nodes = size;
    placement.ranks_per_node = 1;
  } else {
    // Groups begin at every rank of a stride, in blocks of size * stride ranks. After `blocks` of
    // these, groups begin at the same places of their nodes again.
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
    placement.oversubscription = oversubscription_over(span, cluster);
  }
  return placement;
}

/// Places groups of `blocks` runs of `run` ranks each, that together are `world` ranks. Ranks of a
/// run lie `stride` apart, runs `block_stride` apart; between two runs of a group lie the runs of
/// as many other groups as fit. The result is exact: members are counted on every node, and where
/// there are many runs, until their places in nodes repeat.
GroupPlacement place_runs(std::int64_t run, std::int64_t stride, std::int64_t blocks,
                          std::int64_t block_stride, std::int64_t world,
                          const ClusterSpec& cluster) {
  const std::int64_t node = gpus_taken_per_node(cluster, world);
  const std::int64_t period = node / std::gcd(block_stride, node);
  const std::int64_t repeats = std::max<std::int64_t>(blocks / period - 2, 0);
  const std::int64_t counted = blocks - repeats * period;
  GroupPlacement placement{
      .size = run * blocks, .ranks_per_node = run * blocks, .is_alone = run * blocks == world};
  std::vector<bool> is_seen(static_cast<std::size_t>(node), false);
  const std::int64_t side_by_side = block_stride / run;
  for (std::int64_t group = 0; group < world / placement.size; ++group) {
    const std::int64_t place = group % side_by_side;
    const std::int64_t begin = (group / side_by_side * blocks * block_stride +
                                place / stride * stride * run + place % stride) %
                               node;
    if (is_seen[static_cast<std::size_t>(begin)]) {
      continue;
    }
    is_seen[static_cast<std::size_t>(begin)] = true;
    std::vector<std::int64_t> members;  // on each node that the group touches, in order of nodes
    std::int64_t last_node = -1;
    std::int64_t nodes_before_last_period = 0;
    for (std::int64_t block = 0; block < counted; ++block) {
      if (block == counted - period) {
        nodes_before_last_period = std::ssize(members);
      }
      for (std::int64_t i = 0; i < run; ++i) {
        const std::int64_t on = (begin + block * block_stride + i * stride) / node;
        if (on != last_node) {
          members.push_back(0);
          last_node = on;
        }
        ++members.back();
      }
    }
    const std::int64_t nodes = std::ssize(members);
    if (nodes > 1) {
      placement.nodes =
          std::max(placement.nodes, nodes + repeats * (nodes - nodes_before_last_period));
      placement.ranks_per_node =
          std::min(placement.ranks_per_node, *std::min_element(members.begin(), members.end()));
    }
  }
  if (placement.nodes > 1) {
    placement.oversubscription =
        oversubscription_over((blocks - 1) * block_stride + (run - 1) * stride + 1, cluster);
  }
  return placement;
}

}  // namespace

RankGrid::RankGrid(const ParallelConfig& config)
    : sizes_{config.tp, config.cp, config.dp, config.pp}, shard_replicas_(config.dp_replicate) {
  std::array order = {Dimension::kTensor, Dimension::kContext, Dimension::kData,
                      Dimension::kPipeline};
  if (config.rank_order == RankOrder::kTpCpEpPpDp) {
    std::swap(order[2], order[3]);
  }
  for (const Dimension dimension : order) {
    const auto i = static_cast<std::size_t>(dimension);
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
  const std::int64_t ranks =
      std::int64_t{1} * config.tp * config.cp * config.dp / config.dp_replicate;
  const std::int64_t shared = std::int64_t{1} * config.etp * config.ep;
  assert(ranks % shared == 0);
  return ranks / shared;
}

GroupPlacement place_group(const RankGrid& grid, Dimension dimension, const ClusterSpec& cluster) {
  return place(grid.size(dimension), grid.stride(dimension), grid.world_size(), cluster);
}

bool places_experts(const ParallelConfig& config) {
  return config.rank_order == RankOrder::kTpCpEpDpPp || config.pp == 1 ||
         std::int64_t{1} * config.etp * config.ep == std::int64_t{1} * config.tp * config.cp;
}

GroupPlacement place_replicas(const RankGrid& grid, const ClusterSpec& cluster) {
  const std::int64_t sharers = grid.size(Dimension::kContext);
  const std::int64_t replicas = grid.size(Dimension::kData) / grid.shard_replicas();
  const std::int64_t stride = grid.stride(Dimension::kContext);
  const std::int64_t replica_stride = grid.stride(Dimension::kData);
  if (replica_stride == sharers * stride || replicas == 1) {
    return place(sharers * replicas, stride, grid.world_size(), cluster);
  }
  return sharers == 1
             ? place(replicas, replica_stride, grid.world_size(), cluster)
             : place_runs(sharers, stride, replicas, replica_stride, grid.world_size(), cluster);
}

GroupPlacement place_shard_replicas(const RankGrid& grid, const ClusterSpec& cluster) {
  const std::int64_t replicas = grid.shard_replicas();
  return place(replicas, grid.stride(Dimension::kData) * grid.size(Dimension::kData) / replicas,
               grid.world_size(), cluster);
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
    case ExpertDimension::kData: {
      const bool are_stages_between = config.rank_order == RankOrder::kTpCpEpPpDp;
      return place(expert_data_size(config), both * (are_stages_between ? config.pp : 1), world,
                   cluster);
    }
  }
  return {};
}

}  // namespace ptdp
