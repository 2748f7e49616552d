// A cluster in the making: what it is so far, and where each part of it comes from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/cluster_spec.h"

namespace ptdp {

/// A cluster, and where each part of it comes from.
struct NewCluster {
  ClusterSpec cluster;
  std::vector<std::string> lines;     ///< What was set, and from what, a line each.
  std::vector<std::string> warnings;  ///< What is assumed or doubtful, a line each.

  void say(std::string line) { lines.push_back(std::move(line)); }
  void warn(std::string line) { warnings.push_back(std::move(line)); }
};

/// Returns a rate for people: "450 GB/s".
[[nodiscard]] std::string rate_text(BytesPerSecond rate);

/// Returns the shipped GPU that drivers call `product`: "NVIDIA H100 80GB HBM3"; nullopt: none.
[[nodiscard]] std::optional<GpuSpec> shipped_gpu_of(const std::string& product);
/// Returns whether a GPU is the shipped one that `product` names, or one measured of its kind; also
/// where no shipped GPU is called so.
[[nodiscard]] bool may_be(const GpuSpec& gpu, const std::string& product);
/// Returns the shipped cluster whose nodes have this GPU, the shortest name of several first;
/// nullopt: none has it.
[[nodiscard]] std::optional<ClusterSpec> shipped_cluster_of(const std::string& gpu);

/// Sets what messages reach of a link; collectives keep the rate that they have. A rate beyond the
/// data sheet raises that.
void set_message_rate(NewCluster& made, LinkSpec& link, BytesPerSecond measured,
                      const std::string& what, const std::string& place);

}  // namespace ptdp
