#include "cost_model/network/collectives.h"

#include <algorithm>
#include <cmath>

#include "cost_model/network/nccl_tuner.h"

namespace ptdp {
namespace {

constexpr std::int64_t kMostNcclChannels = 64;  // MAXCHANNELS of src/include/device.h
constexpr std::int64_t kSendsAtOnce = 8;  // NCCL_MAX_DEV_WORK_P2P_PER_BATCH of src/include/device.h
/// The tuner's method that is most like sends: they run by Simple from rank to rank.
constexpr NcclMethod kSends = {NcclAlgorithm::kRing, NcclProtocol::kSimple};
constexpr Seconds kSendLatency(8.4e-6);  // kSends' base latency in NCCL 2.30.7 src/graph/tuning.cc

/// Share of a buffer that each of n ranks sends: (n−1)/n.
double share_sent(std::int64_t ranks) {
  return 1.0 - 1.0 / static_cast<double>(ranks);
}

/// Returns the inputs of NCCL's tuner for a group, or nullptr where the cluster has none.
const NcclSpec* nccl_of(const GroupPlacement& group, const ClusterSpec& cluster) {
  const std::optional<NcclSpec>& nccl =
      group.is_within_node() && cluster.nccl_within_node ? cluster.nccl_within_node : cluster.nccl;
  return nccl ? &*nccl : nullptr;
}

/// Returns the share of the rate of NVLink's collectives that a group within a node reaches.
double share_of_rate(const GroupPlacement& group, const ClusterSpec& cluster) {
  const NcclSpec* nccl = nccl_of(group, cluster);
  if (nccl != nullptr) {
    for (const NcclGroupRate& rate : nccl->group_rates) {
      if (group.size <= rate.gpus) {
        return rate.share;
      }
    }
  }
  return 1.0;
}

/// Bandwidth of the NICs of a group's members on one node, in the tier that the group spans.
BytesPerSecond nic_bandwidth(const GroupPlacement& group, const ClusterSpec& cluster) {
  const bool has_siblings = group.ranks_per_node < cluster.gpus_per_node && !group.is_alone;
  const BytesPerSecond nic =
      has_siblings ? cluster.nic.sibling_bandwidth() : cluster.nic.collective_bandwidth();
  return BytesPerSecond(nic.value() / group.oversubscription *
                        static_cast<double>(group.ranks_per_node));
}

BytesPerSecond rate_of_each(BytesPerSecond total, int channels) {
  return BytesPerSecond(total.value() / channels);
}

/// Returns what NCCL's topology search finds for a group, with measured rates in place of its table
/// of speeds.
NcclGraph nccl_graph(const NcclSpec& nccl, const GroupPlacement& group,
                     const ClusterSpec& cluster) {
  NcclGraph graph{.compute_capability = nccl.compute_capability,
                  .cpu = nccl.cpu,
                  .node_link = nccl.node_link,
                  .nic_latency = nccl.nic_latency,
                  .enabled = nccl.enabled};
  const BytesPerSecond ring = bus_bandwidth(group, cluster);
  graph.ring.count =
      group.is_within_node()
          ? nccl.channels
          : static_cast<int>(std::min(std::int64_t{nccl.channels_per_nic} * group.ranks_per_node,
                                      kMostNcclChannels));
  graph.ring.within = graph.ring.between = rate_of_each(ring, graph.ring.count);
  if (nccl.nvls.channels > 0 && group.ranks_per_node == cluster.gpus_per_node) {
    // The two halves of an all-reduce between two nodes take both ways of the NICs: NCCL doubles
    // the rate between nodes, which the switches in the nodes still bound.
    const BytesPerSecond nvls =
        group.nodes == 2 ? BytesPerSecond(nccl.nvls.bandwidth.value() / 2.0) : nccl.nvls.bandwidth;
    graph.nvls.count = nccl.nvls.channels;
    graph.nvls.within = rate_of_each(nccl.nvls.bandwidth, nccl.nvls.channels);
    graph.nvls.between =
        group.is_within_node()
            ? graph.nvls.within
            : rate_of_each(std::min(nvls, nic_bandwidth(group, cluster)), nccl.nvls.channels);
  }
  return graph;
}

/// Time τ to fill the pipeline of a method.
Seconds ramp_of(const NcclMethod& method, const NcclSpec& nccl) {
  const bool is_nvls =
      method.algorithm == NcclAlgorithm::kNvls || method.algorithm == NcclAlgorithm::kNvlsTree;
  if (is_nvls && nccl.nvls.ramp) {
    return *nccl.nvls.ramp;
  }
  return method.protocol == NcclProtocol::kSimple ? nccl.ramp + nccl.simple_ramp : nccl.ramp;
}

/// Transfer time x with the filling of the pipeline, which takes τ: (√x + √τ)².
Seconds ramped(Seconds transfer, Seconds ramp) {
  const double root = std::sqrt(transfer.value()) + std::sqrt(ramp.value());
  return Seconds(root * root);
}

Seconds nccl_collective_time(Collective collective, Bytes size, const NcclSpec& nccl,
                             const GroupPlacement& group, const ClusterSpec& cluster) {
  const NcclChoice choice =
      nccl_choice(size, nccl_graph(nccl, group, cluster),
                  {.collective = collective, .ranks = group.size, .nodes = group.nodes});
  return nccl.launch + choice.time.latency +
         ramped(choice.time.transfer, ramp_of(choice.method, nccl));
}

Seconds ring_all_reduce_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  const auto steps_between_nodes = 2.0 * static_cast<double>(group.nodes - 1);
  const double steps_within = 2.0 * static_cast<double>(group.size - 1) - steps_between_nodes;
  return cluster.collective_launch + steps_within * cluster.nvlink.hop_latency +
         steps_between_nodes * cluster.nic.hop_latency +
         ring_all_reduce_volume(size, group.size) / bus_bandwidth(group, cluster);
}

/// Returns the curve for groups with as many ranks on as many nodes as `group`, or nullptr when
/// there is none. No curve applies to an uneven or an oversubscribed group.
const MeasuredCurve* find_curve(const std::vector<AllReduceCurve>& curves,
                                const GroupPlacement& group) {
  for (const AllReduceCurve& measured : curves) {
    if (measured.ranks == group.size && measured.nodes == group.nodes &&
        group.size == group.nodes * group.ranks_per_node && group.oversubscription == 1.0) {
      return &measured.curve;
    }
  }
  return nullptr;
}

/// Time of an all-reduce that is not hierarchical: by a curve, the tuner or a ring.
Seconds flat_all_reduce_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  if (group.size == 1) {
    return Seconds(0.0);
  }
  const auto time = [&] {
    if (const MeasuredCurve* curve = measured_curve(group, cluster)) {
      return curve->time(size);
    }
    const NcclSpec* nccl = nccl_of(group, cluster);
    return nccl != nullptr
               ? nccl_collective_time(Collective::kAllReduce, size, *nccl, group, cluster)
               : ring_all_reduce_time(size, group, cluster);
  };
  return time() * cluster.time_factors.communication;
}

/// Whether the group has several nodes, and on each of them several members, equally many.
bool has_levels(const GroupPlacement& group) {
  return group.nodes > 1 && group.ranks_per_node > 1 &&
         group.nodes * group.ranks_per_node == group.size;
}

/// Time of an all-gather or a reduce-scatter, half of an all-reduce.
Seconds half_time(Collective collective, Bytes size, const GroupPlacement& group,
                  const ClusterSpec& cluster) {
  const double factor = cluster.time_factors.communication;
  const auto& own = collective == Collective::kAllGather ? cluster.all_gather_curves
                                                         : cluster.reduce_scatter_curves;
  if (const MeasuredCurve* curve = find_curve(own, group)) {
    return curve->time(size) * factor;
  }
  const NcclSpec* nccl = nccl_of(group, cluster);
  const bool is_without_ring_curve =
      nccl != nullptr && (nccl->nvls.channels > 0 || measured_curve(group, cluster) == nullptr);
  if (group.size > 1 && is_without_ring_curve) {
    return nccl_collective_time(collective, size, *nccl, group, cluster) * factor;
  }
  return flat_all_reduce_time(size, group, cluster) / 2.0;
}

}  // namespace

Bytes ring_all_reduce_volume(Bytes size, std::int64_t ranks) {
  return 2.0 * share_sent(ranks) * size;
}
Bytes ring_all_gather_volume(Bytes size, std::int64_t ranks) {
  return share_sent(ranks) * size;
}
Bytes ring_reduce_scatter_volume(Bytes size, std::int64_t ranks) {
  return share_sent(ranks) * size;
}
Bytes all_to_all_volume(Bytes size, std::int64_t ranks) {
  return share_sent(ranks) * size;
}

double tensor_parallel_elements(const TransformerConfig& model, int micro_batch_size, int tp,
                                Recompute recompute, bool is_sequence_parallel) {
  const double factor =
      (repeats(recompute) == Repeats::kLayer ? 12.0 : 8.0) + (is_sequence_parallel ? 2.0 : 0.0);
  return factor * micro_batch_size * model.seq_length * model.hidden_size * share_sent(tp);
}

double pipeline_elements(const TransformerConfig& model, int micro_batch_size, int vpp,
                         int scattered_over) {
  return 1.0 * micro_batch_size * model.seq_length * model.hidden_size * vpp / scattered_over;
}

const MeasuredCurve* measured_curve(const GroupPlacement& group, const ClusterSpec& cluster) {
  return find_curve(cluster.all_reduce_curves, group);
}

bool is_message_measured(const GroupPlacement& pipeline, const ClusterSpec& cluster) {
  return pipeline.is_within_node() && !cluster.message_curve.empty();
}

BytesPerSecond bus_bandwidth(const GroupPlacement& group, const ClusterSpec& cluster) {
  if (group.is_within_node()) {
    return cluster.nvlink.collective_bandwidth() * share_of_rate(group, cluster);
  }
  const BytesPerSecond nics = nic_bandwidth(group, cluster);
  return group.ranks_per_node > 1 ? std::min(cluster.nvlink.collective_bandwidth(), nics) : nics;
}

Seconds all_reduce_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  const Seconds flat = flat_all_reduce_time(size, group, cluster);
  if (cluster.all_reduce_across_nodes == AllReduceAcrossNodes::kFlat || !has_levels(group) ||
      measured_curve(group, cluster) != nullptr) {
    return flat;
  }
  const Seconds hierarchical = hierarchical_all_reduce_time(size, group, cluster);
  return cluster.all_reduce_across_nodes == AllReduceAcrossNodes::kFaster
             ? std::min(hierarchical, flat)
             : hierarchical;
}

Seconds hierarchical_all_reduce_time(Bytes size, const GroupPlacement& group,
                                     const ClusterSpec& cluster) {
  if (!has_levels(group)) {
    return flat_all_reduce_time(size, group, cluster);
  }
  const auto members = static_cast<double>(group.ranks_per_node);
  const GroupPlacement within = {.size = group.ranks_per_node,
                                 .ranks_per_node = group.ranks_per_node};
  const GroupPlacement between = {.size = group.nodes,
                                  .ranks_per_node = 1,
                                  .nodes = group.nodes,
                                  .oversubscription = group.oversubscription};
  return half_time(Collective::kReduceScatter, size, within, cluster) +
         flat_all_reduce_time(size / members, between, cluster) +
         half_time(Collective::kAllGather, size, within, cluster);
}

Seconds all_gather_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  return half_time(Collective::kAllGather, size, group, cluster);
}

Seconds reduce_scatter_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  return half_time(Collective::kReduceScatter, size, group, cluster);
}

Seconds exposed_behind(Seconds communication, Seconds compute, double slowdown) {
  const Seconds hidden = std::min(communication, compute);
  return communication - hidden + slowdown * hidden;
}

Seconds all_to_all_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  if (group.size == 1) {
    return Seconds(0.0);
  }
  if (const MeasuredCurve* curve = find_curve(cluster.all_to_all_curves, group)) {
    return curve->time(size) * cluster.time_factors.communication;
  }
  const bool is_within = group.is_within_node();
  const NcclSpec* nccl = nccl_of(group, cluster);
  const std::int64_t batches = (group.size - 1 + kSendsAtOnce - 1) / kSendsAtOnce;
  const Bytes part = size / static_cast<double>(group.size);
  const auto peers_within = static_cast<double>(group.ranks_per_node - 1);
  const auto peers_beyond = static_cast<double>(group.size - group.ranks_per_node);
  const Seconds within =
      peers_within * part /
      (is_within ? bus_bandwidth(group, cluster) : cluster.nvlink.collective_bandwidth());
  const Seconds beyond =
      is_within ? Seconds(0.0)
                : peers_beyond * part * group.oversubscription / cluster.nic.collective_bandwidth();
  const Seconds transfer = std::max(within, beyond);
  const Seconds launch =
      is_within && nccl != nullptr ? nccl->launch + kSendLatency : cluster.collective_launch;
  const Seconds time =
      launch +
      static_cast<double>(batches) * (is_within ? cluster.nvlink : cluster.nic).hop_latency +
      (nccl != nullptr ? ramped(transfer, ramp_of(kSends, *nccl)) : transfer);
  return time * cluster.time_factors.communication;
}

Seconds message_time(Bytes size, const GroupPlacement& pipeline, const ClusterSpec& cluster) {
  const double factor = cluster.time_factors.communication;
  if (is_message_measured(pipeline, cluster)) {
    const MeasuredCurve& curve = cluster.message_curve;
    return std::max(curve.time(size) - curve.points().front().time, Seconds(0.0)) * factor;
  }
  if (pipeline.is_within_node()) {
    return size / cluster.nvlink.effective_bandwidth() * factor;
  }
  return size /
         BytesPerSecond(cluster.nic.effective_bandwidth().value() / pipeline.oversubscription) *
         factor;
}

}  // namespace ptdp
