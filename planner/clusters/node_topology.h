// What `nvidia-smi topo -m` says of a node: its GPUs, the links between them, its NICs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace ptdp {

/// GPUs and NICs of a node.
struct NodeTopology {
  int gpus = 0;
  int nvlinks = 0;          ///< NVLinks between two GPUs, the most of any pair; 0: none have any.
  int links_of_gpu = 0;     ///< Sum of a GPU's NVLinks to all others, the most of any GPU.
  int pairs_over_pcie = 0;  ///< Pairs of GPUs without NVLink.
  bool is_joined = false;  ///< Whether NVLink leads from each GPU to all others, over peers or not.
  std::vector<std::string> nics;      ///< Names: "mlx5_0", or "NIC0" without a legend.
  std::vector<std::string> warnings;  ///< What looks broken, a line each.
};

/// Reads a matrix of `nvidia-smi topo -m`. Throws Error at `place` if no row of a GPU is in it.
[[nodiscard]] NodeTopology read_topology(std::string_view text, const std::string& place);

}  // namespace ptdp
