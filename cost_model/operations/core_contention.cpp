#include "cost_model/operations/core_contention.h"

#include <algorithm>
#include <cstdint>

#include "cost_model/operations/slowest_card.h"

namespace ptdp {
namespace {

/// Returns the cluster's factors with `cores` cores busy, linear between the measured numbers.
BusyCores busy_at(const ClusterSpec& cluster, int cores) {
  BusyCores below{.cores = 1};
  if (cores == 1 || cluster.busy_cores.empty()) {
    return below;
  }
  BusyCores above = cluster.busy_cores.back();  // beyond the last measured number: the last
  for (const BusyCores& busy : cluster.busy_cores) {
    if (busy.cores >= cores) {
      above = busy;
      break;
    }
    below = busy;
  }
  const double position =
      cores >= above.cores ? 1.0 : 1.0 * (cores - below.cores) / (above.cores - below.cores);
  const auto between = [position](double from, double to) { return from + position * (to - from); };
  return {.cores = cores,
          .matmul = between(below.matmul, above.matmul),
          .attention = between(below.attention, above.attention),
          .memory_bound = between(below.memory_bound, above.memory_bound),
          .optimizer = between(below.optimizer, above.optimizer),
          .skew = between(below.skew, above.skew)};
}

}  // namespace

int ranks_on_node(const ParallelConfig& config, const ClusterSpec& cluster) {
  return static_cast<int>(std::min<std::int64_t>(config.world_size(), cluster.gpus_per_node));
}

int busy_cores(const ParallelConfig& config, const ClusterSpec& cluster) {
  return cluster.cores_per_node ? std::min(ranks_on_node(config, cluster), *cluster.cores_per_node)
                                : 1;
}

ComputeFactors compute_factors(const ParallelConfig& config, const ClusterSpec& cluster) {
  const TimeFactors& fitted = cluster.time_factors;
  const BusyCores busy = busy_at(cluster, busy_cores(config, cluster));
  const int members = std::min(config.tp, busy.cores);  // busy members of a tensor-parallel group
  const double slowest = slowest_card_factor(config.world_size(), cluster.gpu.card_spread);
  return {.matmul = fitted.matmul * busy.matmul * slowest,
          .attention = fitted.attention * busy.attention * slowest,
          .memory_bound = fitted.memory_bound * busy.memory_bound,
          .optimizer = fitted.memory_bound * busy.optimizer,
          .skew = busy_at(cluster, members).skew};
}

bool shares_cores(const ParallelConfig& config, const ClusterSpec& cluster) {
  return cluster.cores_per_node && ranks_on_node(config, cluster) > *cluster.cores_per_node;
}

Seconds core_contention_time(const ParallelConfig& config, const ClusterSpec& cluster,
                             Seconds mean_work, Seconds compute_path) {
  if (!shares_cores(config, cluster)) {
    return Seconds(0.0);
  }
  const double share = 1.0 * ranks_on_node(config, cluster) / *cluster.cores_per_node;
  return std::max(share * mean_work - compute_path, Seconds(0.0));
}

}  // namespace ptdp
