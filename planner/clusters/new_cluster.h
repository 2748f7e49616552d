// A cluster of one's own: a shipped one, changed by what is known and by what was measured there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"
#include "planner/clusters/copy_rates.h"
#include "planner/clusters/nccl_tests.h"
#include "planner/clusters/node_list.h"
#include "planner/clusters/node_topology.h"
#include "planner/clusters/probe_report.h"
#include "planner/clusters/smi_report.h"

namespace ptdp {

/// NICs of a node.
struct NodeNics {
  int count = 0;
  BytesPerSecond each;  ///< Data-sheet rate of one, per direction.
};
/// Reads "4x400Gb" (gigabits per second) or "4x50GB" (gigabytes per second). Throws Error at
/// `place` for anything else.
[[nodiscard]] NodeNics parse_nics(std::string_view text, const std::string& place);
/// Reads "450GB" or "450" (gigabytes per second and direction), or "3600Gb". Throws Error at
/// `place` for anything else.
[[nodiscard]] BytesPerSecond parse_rate(std::string_view text, const std::string& place);

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

/// A cluster, and where each part of it comes from.
struct NewCluster {
  ClusterSpec cluster;
  std::vector<std::string> lines;     ///< What was set, and from what, a line each.
  std::vector<std::string> warnings;  ///< What is assumed or doubtful, a line each.
};

/// Puts a cluster together; what was measured counts before what is given, and that before what is
/// shipped. Throws Error if the facts name no GPU, or leave open what joins those of a node.
[[nodiscard]] NewCluster make_cluster(const ClusterFacts& facts);

/// Returns the cluster for people: where each part comes from, and how to plan for it.
[[nodiscard]] std::string to_text(const NewCluster& made, const std::string& file);

}  // namespace ptdp
