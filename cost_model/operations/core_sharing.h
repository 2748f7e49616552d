// What ranks lose to one another that share the cores of a host.
#pragma once

#include "cost_model/inputs/cluster_spec.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/units.h"

namespace ptdp {

/// Ranks on the node that holds most of them.
[[nodiscard]] int ranks_on_node(const ParallelConfig& config, const ClusterSpec& cluster);

/// Cores of a node that compute at the same time: as many as it has ranks, up to all. 1 where the
/// cluster says nothing of cores.
[[nodiscard]] int busy_cores(const ParallelConfig& config, const ClusterSpec& cluster);

/// What compute of a rank that has the machine to itself is to be multiplied with where all ranks
/// of `config` run: the cluster's time_factors times its busy_cores, linear in the number of cores
/// between those that were measured. (The functions of collectives.h apply the factor of
/// communication themselves.)
struct ComputeFactors {
  double matmul = 1.0;
  double attention = 1.0;
  double memory_bound = 1.0;
  double optimizer = 1.0;
  /// Of compute, what the members of a tensor-parallel group lose by waiting for the slowest.
  double skew = 0.0;
};
[[nodiscard]] ComputeFactors compute_factors(const ParallelConfig& config,
                                             const ClusterSpec& cluster);

/// Whether a node has more ranks than cores, so that these take turns.
[[nodiscard]] bool shares_cores(const ParallelConfig& config, const ClusterSpec& cluster);

/// Time that ranks wait for a core, where a node has more ranks R than cores C:
///
///   t = max(0, R/C·mean work − compute path)
///
/// with the mean compute of a rank in an iteration, and what passes until the last has computed
/// where none waits for a core: the work of the busiest rank and its bubble. A rank that waits for
/// a message leaves its core to others, so that no core is idle while a rank could compute, and the
/// iteration takes as long as the longer of work/cores and the path: Brent's bounds (JACM 1974)
/// without the sum of the two, since in a pipeline's bubble others compute. Collectives are no
/// compute: their curves are measured with as many ranks as the group has.
[[nodiscard]] Seconds core_sharing_time(const ParallelConfig& config, const ClusterSpec& cluster,
                                        Seconds mean_work, Seconds compute_path);

}  // namespace ptdp
