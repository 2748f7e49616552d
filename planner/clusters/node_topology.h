// What `nvidia-smi topo -m` says of a node: its GPUs, the links between them, its NICs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// GPUs and NICs of a node.
struct NodeTopology {
  int gpus = 0;
  /// NVLinks between two GPUs, the most of any pair; 0: all pairs meet over PCIe.
  int nvlinks = 0;
  /// Whether the links of a GPU all lead into switches, so that each peer is reached by all.
  bool is_switched = false;
  std::vector<std::string> nics;      ///< Names: "mlx5_0", or "NIC0" without a legend.
  std::vector<std::string> warnings;  ///< What looks broken, a line each.
};

/// Reads a matrix of `nvidia-smi topo -m`. Throws Error at `place` if no row of a GPU is in it.
[[nodiscard]] NodeTopology read_topology(std::string_view text, const std::string& place);

}  // namespace ptdp
