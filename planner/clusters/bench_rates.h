// Measured collectives in a cluster: curves of their groups, and rates for all others.
#pragma once

#include <vector>

#include "planner/clusters/cluster_draft.h"
#include "planner/clusters/nccl_tests.h"

namespace ptdp {

/// Puts measured collectives into a cluster. Groups alike follow the curves. Of other groups the
/// largest measured group within a node, and the largest across nodes, say what they reach of the
/// links. Throws Error for more ranks than a node has GPUs, and for one group measured twice.
void take_benches(NewCluster& made, std::vector<CollectiveBench> benches);

}  // namespace ptdp
