#include "cost_model/network/expert_dispatch.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

#include "cost_model/network/collectives.h"

namespace ptdp {
namespace {

/// The experts of one node, as the draws see them: whole groups, or a part of one group.
struct NodeExperts {
  int experts = 0;
  int groups = 1;
  /// Experts of the node's group that are on other nodes; 0 for whole groups.
  int rest_of_group = 0;
};

/// State of draws that have all missed the node so far.
struct Drawn {
  int groups = 0;   ///< Groups from which experts were drawn.
  int of_rest = 0;  ///< Experts drawn from the rest of the node's own group.
};

/// One way in which the next draw misses the node.
struct Miss {
  int experts = 0;  ///< Experts that the draw may take in this way; none or fewer: it cannot be.
  Drawn then;       ///< State after this draw.
};

int experts_per_group(const ExpertRouting& routing) {
  return routing.num_experts / routing.num_groups;
}

/// Whether experts of further groups may still be drawn.
bool is_open(const ExpertRouting& routing, const Drawn& drawn) {
  return drawn.groups < routing.group_topk;
}

/// Returns the four ways in which the next draw can miss the node: an expert of another group or of
/// the node's own group, each already drawn from or not.
std::array<Miss, 4> misses(const ExpertRouting& routing, const NodeExperts& node, int draws,
                           const Drawn& drawn) {
  const int per_group = experts_per_group(routing);
  const auto& [groups, of_rest] = drawn;
  const int others = groups - (of_rest > 0 ? 1 : 0);
  std::array<Miss, 4> ways = {
      Miss{others * per_group - (draws - of_rest), drawn},
      Miss{of_rest > 0 ? node.rest_of_group - of_rest : 0, {groups, of_rest + 1}}};
  if (is_open(routing, drawn)) {
    ways[2] = {(routing.num_groups - node.groups - others) * per_group, {groups + 1, of_rest}};
    ways[3] = {of_rest == 0 ? node.rest_of_group : 0, {groups + 1, 1}};
  }
  return ways;
}

/// Probability that none of the token's experts is on the node.
double probability_of_a_miss(const ExpertRouting& routing, const NodeExperts& node) {
  const int columns = routing.topk + 1;
  const int states = (routing.group_topk + 1) * columns;
  // Probability of each state of draws that all missed the node; the rest up to 1 has hit the node.
  std::vector<double> now(states);
  now[0] = 1.0;
  for (int draws = 0; draws < routing.topk; ++draws) {
    std::vector<double> next(now.size());
    for (int state = 0; state < states; ++state) {
      if (now[state] == 0.0) {
        continue;
      }
      const Drawn drawn = {state / columns, state % columns};
      const int pool =
          is_open(routing, drawn) ? routing.num_experts : drawn.groups * experts_per_group(routing);
      for (const Miss& miss : misses(routing, node, draws, drawn)) {
        if (miss.experts > 0) {
          next[miss.then.groups * columns + miss.then.of_rest] +=
              now[state] * miss.experts / (pool - draws);
        }
      }
    }
    now = std::move(next);
  }
  return std::accumulate(now.begin(), now.end(), 0.0);
}

Bytes bytes_of_tokens(const Dispatch& dispatch) {
  return Bytes(static_cast<double>(dispatch.tokens) * static_cast<double>(dispatch.hidden_size) *
               dispatch.element_bytes);
}

/// Bytes that one GPU sends by hierarchical dispatch, over its NIC and over NVLink.
struct HierarchicalVolume {
  Bytes between_nodes;
  Bytes within_node;
};

HierarchicalVolume hierarchical_volume(const Dispatch& dispatch, const GroupPlacement& group) {
  const Bytes size = bytes_of_tokens(dispatch);
  HierarchicalVolume volume;
  if (!group.is_within_node()) {
    volume.between_nodes = expected_nodes(dispatch.routing, group.nodes) *
                           (1.0 - 1.0 / static_cast<double>(group.nodes)) * size;
  }
  if (group.nodes < group.size) {
    volume.within_node = expected_nodes(dispatch.routing, group.size) * size;
  }
  return volume;
}

Seconds hierarchical_time(const Dispatch& dispatch, const GroupPlacement& group,
                          const ClusterSpec& cluster) {
  if (group.size == 1) {
    return Seconds(0.0);
  }
  const HierarchicalVolume volume = hierarchical_volume(dispatch, group);
  Seconds latency = cluster.collective_launch;
  Seconds between;
  Seconds within;
  if (!group.is_within_node()) {
    latency += cluster.nic.hop_latency;
    between = volume.between_nodes * group.oversubscription / cluster.nic.collective_bandwidth();
  }
  if (group.nodes < group.size) {
    latency += cluster.nvlink.hop_latency;
    within = volume.within_node / cluster.nvlink.collective_bandwidth();
  }
  return (latency + std::max(between, within)) * cluster.time_factors.communication;
}

}  // namespace

double expected_nodes(const ExpertRouting& routing, std::int64_t nodes) {
  while (routing.num_experts % nodes != 0) {
    ++nodes;  // groups that straddle nodes: as if on so many that all hold equally many
  }
  ExpertRouting effective = routing;
  const bool is_aligned = nodes % routing.num_groups == 0 || routing.num_groups % nodes == 0;
  if (!is_aligned) {
    effective.num_groups = effective.group_topk = 1;
  }
  const int per_group = experts_per_group(effective);
  NodeExperts node{.experts = static_cast<int>(effective.num_experts / nodes)};
  assert(node.experts * nodes == effective.num_experts);
  assert(effective.topk <= effective.group_topk * per_group);
  if (node.experts > per_group) {
    node.groups = node.experts / per_group;
  } else {
    node.rest_of_group = per_group - node.experts;
  }
  return static_cast<double>(nodes) * (1.0 - probability_of_a_miss(effective, node));
}

Seconds dispatch_time(const Dispatch& dispatch, ExpertDispatch kind,
                      const GroupPlacement& expert_group, const ClusterSpec& cluster) {
  const Bytes size = bytes_of_tokens(dispatch);
  switch (kind) {
    case ExpertDispatch::kAllToAll:
      return all_to_all_time(dispatch.routing.topk * size, expert_group, cluster);
    case ExpertDispatch::kAllGather:
      return all_gather_time(static_cast<double>(expert_group.size) * size, expert_group, cluster);
    case ExpertDispatch::kHierarchical:
      return hierarchical_time(dispatch, expert_group, cluster);
  }
  return {};
}

Seconds combine_time(const Dispatch& dispatch, ExpertDispatch kind,
                     const GroupPlacement& expert_group, const ClusterSpec& cluster) {
  if (kind == ExpertDispatch::kAllGather) {
    return reduce_scatter_time(static_cast<double>(expert_group.size) * bytes_of_tokens(dispatch),
                               expert_group, cluster);
  }
  return dispatch_time(dispatch, kind, expert_group, cluster);
}

double copies_received(const ExpertRouting& routing, const GroupPlacement& expert_group) {
  return expected_nodes(routing, expert_group.size);
}

Bytes dispatch_volume(const Dispatch& dispatch, ExpertDispatch kind,
                      const GroupPlacement& expert_group) {
  if (expert_group.size == 1) {
    return Bytes(0.0);
  }
  const Bytes size = bytes_of_tokens(dispatch);
  switch (kind) {
    case ExpertDispatch::kAllToAll:
      return all_to_all_volume(dispatch.routing.topk * size, expert_group.size);
    case ExpertDispatch::kAllGather:
      return static_cast<double>(expert_group.size - 1) * size;
    case ExpertDispatch::kHierarchical: {
      const HierarchicalVolume volume = hierarchical_volume(dispatch, expert_group);
      return volume.between_nodes + volume.within_node;
    }
  }
  return Bytes(0.0);
}

}  // namespace ptdp
