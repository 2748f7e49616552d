// A cluster: nodes of GPUs, and the links within them and between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/gpu_spec.h"
#include "cost_model/inputs/measured_curve.h"
#include "cost_model/inputs/nccl_graph.h"
#include "cost_model/text/described.h"
#include "cost_model/units.h"

namespace ptdp {

/// Bounds of `launch_slowdown`.
inline constexpr Range kLaunchSlowdownRange = {0.1, 10.0, "a factor"};

/// A link as one GPU sees it; rates are per direction.
struct LinkSpec {
  BytesPerSecond bandwidth;  ///< Data-sheet rate.
  double efficiency = 1.0;   ///< Fraction of the data-sheet rate that large messages reach.
  /// Fraction of the data-sheet rate that large collectives reach; nullopt: `efficiency`.
  /// Collectives keep a link busier than messages between neighbors do.
  std::optional<double> collective_efficiency = std::nullopt;
  /// Fraction of a NIC's rate that collectives reach where several groups share a node's NICs;
  /// nullopt: that of collectives. Links within a node have none.
  std::optional<double> sibling_efficiency = std::nullopt;
  Seconds hop_latency;  ///< Latency of one step of a ring.

  /// Returns the rate that large messages reach.
  [[nodiscard]] BytesPerSecond effective_bandwidth() const {
    return BytesPerSecond(bandwidth.value() * efficiency);
  }
  /// Returns the rate that large collectives reach.
  [[nodiscard]] BytesPerSecond collective_bandwidth() const {
    return BytesPerSecond(bandwidth.value() * collective_efficiency.value_or(efficiency));
  }
  /// Returns the rate that large collectives reach beside those of other groups of the node.
  [[nodiscard]] BytesPerSecond sibling_bandwidth() const {
    return sibling_efficiency ? BytesPerSecond(bandwidth.value() * *sibling_efficiency)
                              : collective_bandwidth();
  }
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

/// Factors by which the modeled times of each kind of work are multiplied.
struct TimeFactors {
  double matmul = 1.0;
  double attention = 1.0;
  double memory_bound = 1.0;   ///< Factor of element-wise work and of the optimizer.
  double communication = 1.0;  ///< Factor of collectives and messages.

  friend bool operator==(const TimeFactors&, const TimeFactors&) = default;
};

/// Slowdown of compute while several cores of a node compute: each factor multiplies the time of a
/// core that computes alone. Cores share caches, memory bandwidth and power; two threads of one
/// core share its units as well.
struct BusyCores {
  int cores = 0;  ///< Cores of the node that compute at the same time.
  double matmul = 1.0;
  double attention = 1.0;
  double memory_bound = 1.0;
  double optimizer = 1.0;  ///< Factor of the optimizer, which works on more than caches hold.
  /// Fraction of compute that `cores` ranks lose if they wait for the slowest several times a
  /// layer, as the ranks of a tensor-parallel group do.
  double skew = 0.0;

  friend bool operator==(const BusyCores&, const BusyCores&) = default;
};

/// Measured times of a collective over `ranks` GPUs, equally many on each of `nodes` nodes.
struct AllReduceCurve {
  int ranks = 0;
  int nodes = 1;
  MeasuredCurve curve;

  friend bool operator==(const AllReduceCurve&, const AllReduceCurve&) = default;
};

/// A level of the network above the node. Groups that span at most `gpus` consecutive GPUs have
/// 1/oversubscription of their NIC's rate.
struct NetworkTier {
  std::int64_t gpus = 0;
  double oversubscription = 1.0;

  friend bool operator==(const NetworkTier&, const NetworkTier&) = default;
};

/// How all-reduces with several members on each of several nodes are carried out.
enum class AllReduceAcrossNodes {
  kFlat,          ///< One all-reduce over the group, the way the software's library does it.
  kHierarchical,  ///< Reduce-scatter in each node, all-reduce between nodes, all-gather in each.
  kFaster,        ///< Flat or hierarchical, whichever takes less time.
};

/// A GPU's share of its node's host.
struct HostSpec {
  Bytes memory;
  BytesPerSecond memory_bandwidth;  ///< Rate that programs reach of the host's memory.
  BytesPerSecond link_bandwidth;    ///< Rate that large copies to or from the GPU reach.

  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

/// A cluster of equal nodes.
struct ClusterSpec {
  std::string name;
  std::string source;
  std::string default_stack;
  GpuSpec gpu;
  int gpus_per_node = 0;
  /// GPUs of one tray, in a rack that counts as a node: a job larger than the node takes whole
  /// trays (gpus_taken_per_node()). 0: jobs take any number of GPUs.
  int gpus_per_tray = 0;
  LinkSpec nvlink;  ///< Link between the GPUs of a node.
  LinkSpec nic;     ///< Each GPU's share of the node's network.
  /// Fixed time of an all-to-all across nodes, and of what neither a curve nor NCCL's tuner gives.
  Seconds collective_launch;
  /// Measured all-reduces, one curve per group shape; they are preferred to any model.
  std::vector<AllReduceCurve> all_reduce_curves;
  /// Measured reduce-scatters, preferred to any model. A group without a curve takes half an
  /// all-reduce's time, or what `nccl` gives.
  std::vector<AllReduceCurve> reduce_scatter_curves = {};
  /// Measured all-gathers, preferred to any model. A group without a curve takes half an
  /// all-reduce's time, or what `nccl` gives.
  std::vector<AllReduceCurve> all_gather_curves = {};
  /// Measured all-to-alls, preferred to any model.
  std::vector<AllReduceCurve> all_to_all_curves = {};
  /// Measured exchanges between pipeline neighbors on a node: a message of one size in each
  /// direction, everything included. Empty: messages follow from `nvlink` and the stack.
  MeasuredCurve message_curve = {};
  std::optional<NcclSpec> nccl;  ///< Inputs of NCCL's tuner; without any a collective is a ring.
  /// Takes the place of `nccl` for groups within a node, where those were measured on their own.
  std::optional<NcclSpec> nccl_within_node = std::nullopt;
  AllReduceAcrossNodes all_reduce_across_nodes = AllReduceAcrossNodes::kFlat;
  /// A GPU's share of its host; nullopt: the host is unknown, and nothing can be offloaded.
  std::optional<HostSpec> host = std::nullopt;
  /// Network tiers in growing order of size; empty: one flat tier without bound.
  std::vector<NetworkTier> network_tiers;
  /// Cores of a node, on a cluster whose "GPUs" are cores: a rank is a thread or a process of a
  /// host. More ranks than cores take turns. nullopt: every rank has its own device.
  std::optional<int> cores_per_node = std::nullopt;
  /// How many times as long the cluster's hosts take to launch a kernel as x86 hosts.
  double launch_slowdown = 1.0;
  /// Slowdowns by number of busy cores, in growing order from two cores on.
  std::vector<BusyCores> busy_cores = {};
  TimeFactors time_factors = {};  ///< Factors of a fit, on top of everything measured.

  /// Returns the most GPUs that the network tiers allow; 0: no bound is known.
  [[nodiscard]] std::int64_t max_gpus() const {
    return network_tiers.empty() ? 0 : network_tiers.back().gpus;
  }
  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

// The functions describe() read and write JSON: `fields` is an ObjectReader or an ObjectWriter.
template <class Fields>
void describe(Fields& fields, Described<Fields, LinkSpec>& link);
template <class Fields>
void describe(Fields& fields, Described<Fields, TimeFactors>& factors);
template <class Fields>
void describe(Fields& fields, Described<Fields, BusyCores>& busy);
template <class Fields>
void describe(Fields& fields, Described<Fields, AllReduceCurve>& curve);
template <class Fields>
void describe(Fields& fields, Described<Fields, NetworkTier>& tier);
template <class Fields>
void describe(Fields& fields, Described<Fields, HostSpec>& host);
/// Reads or writes a cluster's JSON; `fields` is an ObjectReader or an ObjectWriter. What it reads
/// may name shipped profiles in place of `gpu` and `all_reduce_curves`.
template <class Fields>
void describe(Fields& fields, Described<Fields, ClusterSpec>& cluster);

/// Reads the all-reduce curves of a file by name or path. Throws Error as profile_file() does.
[[nodiscard]] std::vector<AllReduceCurve> find_all_reduce_curves(const std::string& name_or_path);

}  // namespace ptdp
