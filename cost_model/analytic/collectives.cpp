#include "cost_model/analytic/collectives.h"

#include <algorithm>

namespace ptdp {
namespace {

/// (n−1)/n.
double share_sent(std::int64_t ranks) {
  return 1.0 - 1.0 / static_cast<double>(ranks);
}

/// Rate of a GPU's NIC in the tier that the group spans.
BytesPerSecond nic_rate(const GroupPlacement& group, const ClusterSpec& cluster) {
  return BytesPerSecond(cluster.nic.effective_bandwidth().value() / group.oversubscription);
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
      (recompute == Recompute::kFull ? 12.0 : 8.0) + (is_sequence_parallel ? 2.0 : 0.0);
  return factor * micro_batch_size * model.seq_length * model.hidden_size * share_sent(tp);
}

double pipeline_elements(const TransformerConfig& model, int micro_batch_size, int vpp,
                         int scattered_over) {
  return 1.0 * micro_batch_size * model.seq_length * model.hidden_size * vpp / scattered_over;
}

const MeasuredCurve* measured_curve(const GroupPlacement& group, const ClusterSpec& cluster) {
  if (!group.is_within_node()) {
    return nullptr;
  }
  for (const AllReduceCurve& measured : cluster.all_reduce_curves) {
    if (measured.ranks == group.size) {
      return &measured.curve;
    }
  }
  return nullptr;
}

Seconds all_reduce_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  if (group.size == 1) {
    return Seconds(0.0);
  }
  if (const MeasuredCurve* curve = measured_curve(group, cluster)) {
    return curve->time(size);
  }
  const auto steps_between_nodes = 2.0 * static_cast<double>(group.nodes - 1);
  const double steps_within = 2.0 * static_cast<double>(group.size - 1) - steps_between_nodes;
  BytesPerSecond bandwidth = cluster.nvlink.effective_bandwidth();
  if (!group.is_within_node()) {
    const BytesPerSecond nics(nic_rate(group, cluster).value() *
                              static_cast<double>(group.ranks_per_node));
    bandwidth = group.ranks_per_node > 1 ? std::min(bandwidth, nics) : nics;
  }
  return cluster.collective_launch + steps_within * cluster.nvlink.hop_latency +
         steps_between_nodes * cluster.nic.hop_latency +
         ring_all_reduce_volume(size, group.size) / bandwidth;
}

Seconds all_gather_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  return all_reduce_time(size, group, cluster) / 2.0;
}

Seconds reduce_scatter_time(Bytes size, const GroupPlacement& group, const ClusterSpec& cluster) {
  return all_reduce_time(size, group, cluster) / 2.0;
}

Seconds message_time(Bytes size, const GroupPlacement& pipeline, const ClusterSpec& cluster) {
  return size / (pipeline.is_within_node() ? cluster.nvlink.effective_bandwidth()
                                           : nic_rate(pipeline, cluster));
}

}  // namespace ptdp
