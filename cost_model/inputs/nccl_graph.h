// What NCCL's tuner knows of a communicator, and what a cluster's file says of it.
#pragma once

#include <array>
#include <cstdint>

#include "cost_model/text/described.h"
#include "cost_model/units.h"

namespace ptdp {

enum class NcclAlgorithm { kTree, kRing, kNvls, kNvlsTree, kPat };
enum class NcclProtocol { kLl, kLl128, kSimple };

/// Whose processors the nodes have: NCCL's limits of LL between nodes and its cost of a network
/// operation depend on it.
enum class CpuVendor { kIntel, kAmd, kOther };

/// What connects the GPUs of a node.
enum class NodeLink { kNvlink, kPci };

/// What may be chosen, as NCCL_ALGO and NCCL_PROTO restrict it, or a tuner plug-in. Indexed by the
/// enumerators.
struct NcclEnabled {
  std::array<bool, 5> algorithms = {true, true, true, true, true};
  std::array<bool, 3> protocols = {true, true, true};

  friend bool operator==(const NcclEnabled&, const NcclEnabled&) = default;
};

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
  NcclEnabled enabled;

  friend bool operator==(const NcclGraph&, const NcclGraph&) = default;
};

/// Reduction in the switches of a node (NVLink SHARP).
struct NvlsSpec {
  int channels = 0;          ///< 0: there is none.
  BytesPerSecond bandwidth;  ///< Bus bandwidth of a large all-reduce over a node, measured.

  friend bool operator==(const NvlsSpec&, const NvlsSpec&) = default;
};

/// What a cluster's NCCL is like, whatever the group. Rates follow from the cluster's links.
struct NcclSpec {
  int compute_capability = 0;
  CpuVendor cpu = CpuVendor::kIntel;
  NodeLink node_link = NodeLink::kNvlink;
  int channels = 0;          ///< Of rings within a node.
  int channels_per_nic = 0;  ///< Of rings across nodes, for each NIC that the group has on a node.
  NvlsSpec nvls;
  Seconds nic_latency;
  Seconds launch;  ///< Of any collective, beyond NCCL's own base latency: host, synchronisation.
  Seconds ramp;    ///< Time to fill the pipeline that a buffer runs through in pieces.
  NcclEnabled enabled;

  friend bool operator==(const NcclSpec&, const NcclSpec&) = default;
};

/// The two directions of JSON, for ObjectReader and ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, NvlsSpec>& nvls);
template <class Fields>
void describe(Fields& fields, Described<Fields, NcclSpec>& nccl);

}  // namespace ptdp
