// A cluster of one's own: a shipped one, changed by what is known and by what was measured there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/clusters/cluster_draft.h"
#include "planner/clusters/copy_rates.h"
#include "planner/clusters/nccl_tests.h"
#include "planner/clusters/node_list.h"
#include "planner/clusters/node_topology.h"
#include "planner/clusters/probe_report.h"
#include "planner/clusters/rate_flags.h"
#include "planner/clusters/smi_report.h"

namespace ptdp {

/// A report and the name of its file.
template <class Report>
struct FromFile {
  std::string place;
  Report report;
};

/// What is known of a cluster.
struct ClusterFacts {
  std::string name;                 ///< Name of the cluster; empty: that of `from` with "my-".
  std::optional<ClusterSpec> from;  ///< Shipped cluster to begin with; nullopt: the GPU's.
  std::optional<GpuSpec> gpu;       ///< GPU in place of that of `from`.
  std::optional<int> gpus_per_node;
  std::optional<BytesPerSecond> link;  ///< Rate between GPUs of a node, of one, per direction.
  std::optional<NodeNics> nics;
  std::vector<CollectiveBench> benches;
  std::optional<FromFile<CopyRates>> copies;
  std::optional<FromFile<NodeTopology>> topology;
  std::optional<FromFile<SmiReport>> smi;
  std::optional<SlurmJob> slurm;
  std::optional<FromFile<ProbeReport>> probe;
};

/// Puts a cluster together: what is given counts before what reports say of the hardware, both
/// before what is shipped. Measured times and rates then tell what it reaches. Throws Error if the
/// facts name no GPU, leave open what joins those of a node, or contradict one another.
[[nodiscard]] NewCluster make_cluster(const ClusterFacts& facts);

/// Returns the cluster for people: where each part comes from, and how to plan for it.
[[nodiscard]] std::string to_text(const NewCluster& made, const std::string& file);

}  // namespace ptdp
