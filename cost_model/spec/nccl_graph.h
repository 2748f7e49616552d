// What NCCL's tuner knows of a communicator: the machine, and what its topology search found.
#pragma once

#include <cstdint>

#include "cost_model/units.h"

namespace ptdp {

/// Whose processors the nodes have: NCCL's limits of LL between nodes and its cost of a network
/// operation depend on it.
enum class CpuVendor { kIntel, kAmd, kOther };

/// What connects the GPUs of a node.
enum class NodeLink { kNvlink, kPci };

/// Channels that the topology search found for an algorithm, and the rate of each in and between
/// nodes. None: the algorithm is not available.
struct NcclChannels {
  int count = 0;
  BytesPerSecond within;   ///< `bwIntra` of NCCL.
  BytesPerSecond between;  ///< `bwInter`.

  friend bool operator==(const NcclChannels&, const NcclChannels&) = default;
};

/// The inputs of NCCL's tuner. NCCL prints them with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH.
struct NcclGraph {
  int compute_capability = 0;  ///< 70, 80, 90, 100: the oldest GPU of the communicator.
  CpuVendor cpu = CpuVendor::kIntel;
  NodeLink node_link = NodeLink::kNvlink;
  Seconds nic_latency;  ///< That the network plug-in reports for its NIC.
  NcclChannels ring;    ///< Trees and PAT have as many, and the same rates.
  NcclChannels nvls;

  friend bool operator==(const NcclGraph&, const NcclGraph&) = default;
};

}  // namespace ptdp
