// What NCCL's tuner knows of a communicator, and what a cluster's file says of it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/text/described.h"
#include "cost_model/units.h"

namespace ptdp {

/// Algorithms of NCCL; indices of NcclEnabled::algorithms.
enum class NcclAlgorithm { kTree, kRing, kNvls, kNvlsTree, kPat };
/// Protocols of NCCL; indices of NcclEnabled::protocols.
enum class NcclProtocol { kLl, kLl128, kSimple };

/// Vendor of the nodes' processors. NCCL's limits of LL between nodes and its cost of a network
/// operation depend on it.
enum class CpuVendor { kIntel, kAmd, kOther };

/// The kind of link that connects the GPUs of a node.
enum class NodeLink { kNvlink, kPci };

/// Algorithms and protocols that the tuner may choose, indexed by enumerator. NCCL_ALGO, NCCL_PROTO
/// or a tuner plug-in restricts them.
struct NcclEnabled {
  std::array<bool, 5> algorithms = {true, true, true, true, true};
  std::array<bool, 3> protocols = {true, true, true};

  friend bool operator==(const NcclEnabled&, const NcclEnabled&) = default;
};

/// Channels that the topology search found for an algorithm, and the rate of each channel.
struct NcclChannels {
  int count = 0;           ///< Number of channels; 0: the algorithm is not available.
  BytesPerSecond within;   ///< Rate of a channel within a node: NCCL's `bwIntra`.
  BytesPerSecond between;  ///< Rate of a channel between nodes: NCCL's `bwInter`.

  friend bool operator==(const NcclChannels&, const NcclChannels&) = default;
};

/// The inputs of NCCL's tuner. NCCL prints them with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=GRAPH.
struct NcclGraph {
  /// Compute capability of the communicator's oldest GPU: 70, 80, 90, 100.
  int compute_capability = 0;
  CpuVendor cpu = CpuVendor::kIntel;
  NodeLink node_link = NodeLink::kNvlink;
  Seconds nic_latency;  ///< Latency that the network plug-in reports for its NIC.
  NcclChannels ring;    ///< Channels of rings; trees and PAT have as many, at the same rates.
  NcclChannels nvls;
  NcclEnabled enabled;

  friend bool operator==(const NcclGraph&, const NcclGraph&) = default;
};

/// Reduction in the switches of a node: NVLS, NVIDIA's NVLink SHARP.
struct NvlsSpec {
  int channels = 0;          ///< Channels of NVLS; 0: the node has no NVLS.
  BytesPerSecond bandwidth;  ///< Measured bus bandwidth of a large all-reduce over a node.
  /// Takes the place of NcclSpec's ramps where NVLS was measured on its own.
  std::optional<Seconds> ramp = std::nullopt;

  friend bool operator==(const NvlsSpec&, const NvlsSpec&) = default;
};

/// Share of the rate of NVLink's collectives that groups of at most `gpus` GPUs of a node reach.
struct NcclGroupRate {
  int gpus = 0;
  double share = 1.0;

  friend bool operator==(const NcclGroupRate&, const NcclGroupRate&) = default;
};

/// What a cluster's file says of its NCCL, for groups of any shape. Rates follow from the cluster's
/// links.
struct NcclSpec {
  int compute_capability = 0;  ///< Compute capability of the oldest GPU: 70, 80, 90, 100.
  CpuVendor cpu = CpuVendor::kIntel;
  NodeLink node_link = NodeLink::kNvlink;
  int channels = 0;  ///< Channels of rings within a node.
  /// Channels of rings across nodes, per NIC of a group on a node; 0: for groups within nodes
  /// alone.
  int channels_per_nic = 0;
  NvlsSpec nvls;
  Seconds nic_latency;  ///< Latency that the network plug-in reports for its NIC.
  /// Host and synchronization time of any collective, beyond NCCL's own base latency.
  Seconds launch;
  Seconds ramp;  ///< Time to fill the pipeline that a buffer runs through in pieces.
  /// What Simple takes beyond `ramp`. LL and LL128 send smaller pieces, which flag their own end.
  Seconds simple_ramp;
  /// Rates of groups within a node, in growing order of GPUs; larger groups reach the whole rate.
  std::vector<NcclGroupRate> group_rates = {};
  NcclEnabled enabled;

  friend bool operator==(const NcclSpec&, const NcclSpec&) = default;
};

/// Reads or writes the JSON of NVLS; `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, NvlsSpec>& nvls);
/// Reads or writes the JSON of a group's rate; `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, NcclGroupRate>& rate);
/// Reads or writes the JSON of a cluster's NCCL; `fields` is an ObjectReader or an ObjectWriter.
/// Reading throws Error unless rings are among the algorithms and the groups' rates are in order.
template <class Fields>
void describe(Fields& fields, Described<Fields, NcclSpec>& nccl);

}  // namespace ptdp
