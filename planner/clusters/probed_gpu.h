// What a probe measured, in the place of what is known of other GPUs.
#pragma once

#include <string>

#include "planner/clusters/cluster_draft.h"
#include "planner/clusters/probe_report.h"

namespace ptdp {

/// Puts a probe's rates, operations and layers into a cluster; its collectives are left to
/// take_benches(). `place` names its file. Throws Error for the probe of another shipped GPU.
void take_probe(NewCluster& made, const ProbeReport& probe, const std::string& place);

}  // namespace ptdp
