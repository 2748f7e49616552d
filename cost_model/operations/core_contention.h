// What ranks lose to one another: cores of a host that they share, and the slowest card of a job.
#pragma once

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Returns the number of ranks on the node that holds most of them.
[[nodiscard]] int ranks_on_node(const ParallelConfig& config, const ClusterSpec& cluster);

/// Returns how many cores of a node compute at the same time: as many as it has ranks, up to all.
/// It is 1 when the cluster says nothing of cores.
[[nodiscard]] int busy_cores(const ParallelConfig& config, const ClusterSpec& cluster);

/// Factors on the compute time of a rank that has the machine to itself, for when all ranks of a
/// configuration run. Each is the cluster's time_factors times its busy_cores, linear in the number
/// of cores between measured numbers. Those of products and attention are multiplied by
/// slowest_card_factor(). The functions of collectives.h apply the factor of communication
/// themselves.
struct ComputeFactors {
  double matmul = 1.0;
  double attention = 1.0;
  double memory_bound = 1.0;
  double optimizer = 1.0;
  /// Share of compute that the members of a tensor-parallel group lose by waiting for the slowest.
  double skew = 0.0;
};
/// Returns the factors for all ranks of `config` on `cluster`.
[[nodiscard]] ComputeFactors compute_factors(const ParallelConfig& config,
                                             const ClusterSpec& cluster);

/// Whether a node has more ranks than cores, so that ranks take turns on them. False when the
/// cluster says nothing of cores.
[[nodiscard]] bool shares_cores(const ParallelConfig& config, const ClusterSpec& cluster);

/// Time that ranks wait for a core, when a node has more ranks R than cores C:
///
///   t = max(0, R/C·mean work − compute path)
///
/// Mean work is the mean compute of a rank in an iteration. The compute path is what passes until
/// the last rank has computed if none waits for a core: the work of the busiest rank and its
/// bubble.
///
/// A rank that waits for a message leaves its core to others. So no core is idle while a rank could
/// compute, and the iteration takes the longer of work/cores and the path. These are Brent's bounds
/// (JACM 1974) without the sum of the two, since in a pipeline's bubble others compute.
///
/// Collectives do not count as compute: their curves are measured with as many ranks as the group
/// has.
[[nodiscard]] Seconds core_contention_time(const ParallelConfig& config, const ClusterSpec& cluster,
                                           Seconds mean_work, Seconds compute_path);

}  // namespace ptdp
