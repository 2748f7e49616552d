// The model by which NCCL estimates its algorithms and protocols and chooses one of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "cost_model/inputs/nccl_graph.h"
#include "cost_model/units.h"

namespace ptdp {

/// A collective that NCCL's tuner knows.
enum class Collective { kAllReduce, kAllGather, kReduceScatter };

/// An algorithm and a protocol by which NCCL may carry out a collective.
struct NcclMethod {
  NcclAlgorithm algorithm = NcclAlgorithm::kRing;
  NcclProtocol protocol = NcclProtocol::kSimple;

  friend bool operator==(const NcclMethod&, const NcclMethod&) = default;
};

/// Every method that the model knows, in NCCL's order: of equally fast methods NCCL takes the
/// first.
inline constexpr std::array kNcclMethods = {
    NcclMethod{NcclAlgorithm::kTree, NcclProtocol::kLl},
    NcclMethod{NcclAlgorithm::kTree, NcclProtocol::kLl128},
    NcclMethod{NcclAlgorithm::kTree, NcclProtocol::kSimple},
    NcclMethod{NcclAlgorithm::kRing, NcclProtocol::kLl},
    NcclMethod{NcclAlgorithm::kRing, NcclProtocol::kLl128},
    NcclMethod{NcclAlgorithm::kRing, NcclProtocol::kSimple},
    NcclMethod{NcclAlgorithm::kNvls, NcclProtocol::kSimple},
    NcclMethod{NcclAlgorithm::kNvlsTree, NcclProtocol::kSimple},
    NcclMethod{NcclAlgorithm::kPat, NcclProtocol::kSimple},
};

/// A collective of `ranks` GPUs, at least two, equally many on each of `nodes`.
struct NcclCall {
  Collective collective = Collective::kAllReduce;
  std::int64_t ranks = 2;
  std::int64_t nodes = 1;
};

/// Latency and algorithm bandwidth (buffer size over time, not the bus bandwidth) of a method.
struct NcclCost {
  Seconds latency;
  BytesPerSecond bandwidth;
};

/// Returns what NCCL's model says of a method before it knows the size, or nullopt when NCCL does
/// not offer the method. Trees and NVLSTree only all-reduce. NVLS stays within a node and NVLSTree
/// does not. PAT gathers and scatters with one GPU per node. What the graph enables does not matter
/// here.
///
/// CollNet (SHARP in the switches) is left out. LL128 is taken to be enabled, as it is on NVLink
/// and up to a PCIe switch between GPU and NIC. Source: ncclTopoTuneModel in NCCL 2.30.7
/// (src/graph/tuning.cc), formulas and constants.
[[nodiscard]] std::optional<NcclCost> nccl_cost(const NcclGraph& graph, const NcclCall& call,
                                                NcclMethod method);

/// Time of a method at one buffer size, in two parts: latency and transfer.
struct NcclTime {
  Seconds latency;
  Seconds transfer;

  [[nodiscard]] Seconds total() const { return latency + transfer; }
};

/// Returns the time that NCCL's model gives a method, or nullopt when NCCL does not offer it:
///
///   t = f·latency + S/(c·bandwidth)
///
/// S is the whole buffer [B], and c the correction of trees for medium sizes. f is 1.4 (1.9 before
/// Ampere) for Ring/Simple all-reduces across nodes of at least 64 bytes per channel and rank, else
/// 1. Source: ncclTopoGetAlgoTime in NCCL 2.30.7 (src/graph/tuning.cc).
///
/// It is a prior that picks the method rather than a prediction: 40 H100 on 5 nodes took 11.0 ms
/// for 1 GiB (model: 11.4) and 355 us for 1 MiB (model: 191; NVIDIA/nccl issue 1368).
[[nodiscard]] std::optional<NcclTime> nccl_time(Bytes size, const NcclGraph& graph,
                                                const NcclCall& call, NcclMethod method);

/// A method that NCCL's tuner chose, and its time by NCCL's model.
struct NcclChoice {
  NcclMethod method;
  NcclTime time;
};

/// Returns the method that NCCL takes: the fastest by its model among those that the graph enables.
/// Ring and at least one protocol must be enabled.
[[nodiscard]] NcclChoice nccl_choice(Bytes size, const NcclGraph& graph, const NcclCall& call);

}  // namespace ptdp
