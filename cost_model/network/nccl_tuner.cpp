#include "cost_model/network/nccl_tuner.h"

#include <algorithm>
#include <bit>
#include <cassert>

namespace ptdp {
namespace {

// Constants of NCCL 2.30.7, src/graph/tuning.cc: latencies in microseconds, rates in GB/s.

template <class Value>
std::size_t index_of(Value value) {
  return static_cast<std::size_t>(value);
}

using ByProtocol = std::array<double, 3>;         // LL, LL128, Simple
using ByAlgorithm = std::array<ByProtocol, 5>;    // Tree, Ring, NVLS, NVLSTree, PAT
using ByNodes = std::array<double, 3>;            // one node, two, more
using ByGeneration = std::array<ByNodes, 4>;      // Volta, Ampere, Hopper, Blackwell
using CorrectionBySize = std::array<double, 24>;  // powers of two from 64 bytes

constexpr ByAlgorithm kBaseLatency = {
    {{6.8, 14.0, 8.4}, {6.6, 14.0, 8.4}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, {8.0, 8.0, 8.0}}};
constexpr ByAlgorithm kNvlinkLatency = {
    {{0.6, 1.25, 4.0}, {0.6, 1.9, 3.4}, {0.0, 0.0, 25.0}, {0.0, 0.0, 25.0}, {0.0, 0.0, 4.0}}};
constexpr ByAlgorithm kPciLatency = {
    {{1.0, 1.9, 4.0}, {1.0, 2.5, 5.7}, {0.0, 0.0, 0.0}, {0.0, 0.0, 0.0}, {0.0, 0.0, 4.0}}};
constexpr ByAlgorithm kNetworkLatency = {
    {{5.0, 8.5, 14.0}, {2.7, 4.0, 14.0}, {0.0, 0.0, 18.0}, {0.0, 0.0, 20.9}, {0.0, 0.0, 14.0}}};

/// Limits of LL's bus bandwidth [GB/s], by row and number of nodes. Within a node the row is the
/// GPU generation. Across nodes the processor decides: row 1 is AMD, and row 0 is Intel and all
/// others.
constexpr ByGeneration kLlLimit = {
    {{39.0, 39.0, 20.4}, {87.7, 22.5, 19.0}, {141.0, 45.0, 35.0}, {282.0, 90.0, 70.0}}};
// Limits of bandwidth per channel [GB/s], by GPU generation and number of nodes.
constexpr ByGeneration kRingLl128Limit = {
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 36.7}, {40.0, 40.0, 40.0}}};
constexpr ByGeneration kTreeLl128Limit = {
    {{20.0, 20.0, 20.0}, {20.0, 20.0, 20.0}, {36.7, 36.7, 29.0}, {55.6, 31.67, 20.0}}};
constexpr ByGeneration kTreeLimit = {
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {38.7, 41.4, 36.0}, {70.0, 42.8, 24.0}}};
constexpr ByGeneration kNvlsTreeLimit = {
    {{26.5, 18.5, 10.0}, {24.0, 23.6, 17.8}, {0.0, 57.7, 45.5}, {0.0, 96.0, 80.0}}};
constexpr std::array<double, 4> kNvlsEfficiency = {0.0, 0.0, 0.85, 0.74};

constexpr std::array<CorrectionBySize, 3> kTreeCorrection = {
    {{1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5,
      0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0, 1.0},
     {1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6,
      0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0, 1.0},
     {0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5,
      0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9, 0.9}}};

double in_gigabytes(BytesPerSecond rate) {
  return rate.value() / kGiga;
}

std::size_t generation(const NcclGraph& graph) {
  const int capability = graph.compute_capability;
  return capability >= 100 ? 3 : capability >= 90 ? 2 : capability >= 80 ? 1 : 0;
}

/// Floor of the binary logarithm; -1 for 0.
int log2_floor(std::uint64_t value) {
  return static_cast<int>(std::bit_width(value)) - 1;
}

/// Column of a ByNodes table for the nodes of a call.
std::size_t node_column(const NcclCall& call) {
  return call.nodes == 1 ? 0 : call.nodes == 2 ? 1 : 2;
}

double ll_limit(const NcclGraph& graph, const NcclCall& call) {
  const std::size_t by_cpu = graph.cpu == CpuVendor::kAmd ? 1 : 0;
  return kLlLimit[call.nodes == 1 ? generation(graph) : by_cpu][node_column(call)];
}

bool is_offered(const NcclGraph& graph, const NcclCall& call, NcclMethod method) {
  const bool is_all_reduce = call.collective == Collective::kAllReduce;
  const bool is_simple = method.protocol == NcclProtocol::kSimple;
  switch (method.algorithm) {
    case NcclAlgorithm::kTree:
      return is_all_reduce;
    case NcclAlgorithm::kRing:
      return true;
    case NcclAlgorithm::kNvls:
      return is_simple && call.nodes == 1 && graph.nvls.count >= 2;
    case NcclAlgorithm::kNvlsTree:
      return is_simple && is_all_reduce && call.nodes > 1 && graph.nvls.count >= 2;
    case NcclAlgorithm::kPat:
      return is_simple && !is_all_reduce && call.nodes == call.ranks;
  }
  return false;
}

/// Bus bandwidth of Tree in all-reduces [GB/s].
double tree_bandwidth(double channels_rate, const NcclGraph& graph, const NcclCall& call,
                      NcclProtocol protocol) {
  const std::size_t nodes = node_column(call);
  const std::size_t gpu = generation(graph);
  const double rate = std::min(0.92 * channels_rate, graph.ring.count * kTreeLimit[gpu][nodes]);
  switch (protocol) {
    case NcclProtocol::kLl:
      return std::min(rate / 3.8, ll_limit(graph, call));
    case NcclProtocol::kLl128:
      return std::min(rate * (call.nodes == 1 ? 7.0 / 9.0 : 120.0 / 128.0),
                      graph.ring.count * kTreeLl128Limit[gpu][nodes]);
    case NcclProtocol::kSimple:
      return rate;
  }
  return rate;
}

/// Bus bandwidth of Ring [GB/s].
double ring_bandwidth(double channels_rate, const NcclGraph& graph, const NcclCall& call,
                      NcclProtocol protocol) {
  switch (protocol) {
    case NcclProtocol::kLl:
      return std::min(0.5 * channels_rate, ll_limit(graph, call));
    case NcclProtocol::kLl128:
      return std::min(0.92 * channels_rate,
                      graph.ring.count * kRingLl128Limit[generation(graph)][node_column(call)]);
    case NcclProtocol::kSimple:
      return channels_rate;
  }
  return channels_rate;
}

/// Bandwidth of NVLS and NVLSTree [GB/s]: the bus bandwidth of an all-reduce, else the algorithm
/// bandwidth.
double nvls_bandwidth(const NcclGraph& graph, const NcclCall& call, NcclAlgorithm algorithm) {
  const std::size_t gpu = generation(graph);
  const double channels = graph.nvls.count;
  const double per_node = static_cast<double>(call.ranks) / static_cast<double>(call.nodes);
  // An all-reduce pipelines two operations, which use both directions of the links.
  const double operations =
      call.collective == Collective::kAllReduce ? 2.0 : (per_node - 1.0) / per_node;
  const double within = in_gigabytes(graph.nvls.within) * kNvlsEfficiency[gpu] * (channels - 1.0) /
                        channels * operations;
  double between = in_gigabytes(graph.nvls.between);
  if (algorithm == NcclAlgorithm::kNvlsTree) {
    between =
        std::min(between * (call.nodes <= 2 ? 2.0 : 1.0), kNvlsTreeLimit[gpu][node_column(call)]);
  }
  return channels * std::min(within, between);
}

/// Algorithm bandwidth of a method [GB/s].
double algorithm_bandwidth(const NcclGraph& graph, const NcclCall& call, NcclMethod method) {
  const double channels_rate =
      graph.ring.count * in_gigabytes(call.nodes <= 2 ? graph.ring.within : graph.ring.between);
  const auto ranks = static_cast<double>(call.ranks);
  const bool is_all_reduce = call.collective == Collective::kAllReduce;
  const double steps = (is_all_reduce ? 2.0 : 1.0) * (ranks - 1.0);
  switch (method.algorithm) {
    case NcclAlgorithm::kTree:
      return 0.5 * tree_bandwidth(channels_rate, graph, call, method.protocol);
    case NcclAlgorithm::kRing:
      return ranks / steps * ring_bandwidth(channels_rate, graph, call, method.protocol);
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree: {
      const double rate = nvls_bandwidth(graph, call, method.algorithm);
      return is_all_reduce ? ranks / steps * rate : rate;
    }
    case NcclAlgorithm::kPat:
      return 0.75 * channels_rate;
  }
  return 0.0;
}

/// Latency of a method [us], before latency_factor().
double latency(const NcclGraph& graph, const NcclCall& call, NcclMethod method) {
  const std::size_t algorithm = index_of(method.algorithm);
  const std::size_t protocol = index_of(method.protocol);
  const bool is_simple = method.protocol == NcclProtocol::kSimple;
  const double base = kBaseLatency[algorithm][protocol];
  const double within =
      (graph.node_link == NodeLink::kNvlink ? kNvlinkLatency : kPciLatency)[algorithm][protocol];
  // With one GPU per node nothing hides a hop, so the higher latency of trees applies. Simple
  // flushes once more.
  const std::size_t exposed = call.nodes == call.ranks ? index_of(NcclAlgorithm::kTree) : algorithm;
  const double between = kNetworkLatency[exposed][protocol] +
                         (is_simple ? 2.0 : 1.0) * graph.nic_latency.value() / kMicro;
  const double levels = log2_floor(static_cast<std::uint64_t>(call.nodes));
  switch (method.algorithm) {
    case NcclAlgorithm::kTree: {
      const std::int64_t others = call.ranks / call.nodes - 1;
      return base + 2.0 * (static_cast<double>(others) * within + levels * between);
    }
    case NcclAlgorithm::kRing: {
      const double passes = call.collective == Collective::kAllReduce ? 2.0 : 1.0;
      const double steps = passes * static_cast<double>(call.ranks - 1);
      const double steps_between = passes * static_cast<double>(call.nodes - 1);
      const double posting =
          call.nodes == 1 ? 0.0
                          : (graph.cpu == CpuVendor::kAmd ? 2.0 : 1.0) * (is_simple ? 3.0 : 1.0);
      return base + (steps - steps_between) * std::max(within, posting) + steps_between * between;
    }
    case NcclAlgorithm::kNvls:
      return within;
    case NcclAlgorithm::kNvlsTree:
      return base + within + 2.0 * levels * between;
    case NcclAlgorithm::kPat:
      return base + levels * between / 3.5 + 2.8 * static_cast<double>(call.ranks);
  }
  return 0.0;
}

/// Factor on a method's bandwidth for a buffer of `bytes`: 1 except for all-reduces by trees.
double size_correction(std::uint64_t bytes, const NcclGraph& graph, const NcclCall& call,
                       NcclMethod method) {
  if (call.collective != Collective::kAllReduce) {
    return 1.0;
  }
  const int power = log2_floor(bytes >> 6U);
  const CorrectionBySize& table = kTreeCorrection[index_of(method.protocol)];
  const bool is_corrected_nvls = method.algorithm == NcclAlgorithm::kNvlsTree &&
                                 graph.compute_capability >= 100 && graph.cpu != CpuVendor::kOther;
  // NCCL leaves the last entry to NVLSTree.
  const int entries = method.algorithm == NcclAlgorithm::kTree ? 23 : is_corrected_nvls ? 24 : 0;
  return power >= 0 && power < entries ? table[static_cast<std::size_t>(power)] : 1.0;
}

/// Factor on a method's latency for a buffer of `bytes`: 1 except for large Ring/Simple all-reduces
/// across nodes.
double latency_factor(std::uint64_t bytes, const NcclGraph& graph, const NcclCall& call,
                      NcclMethod method) {
  const bool is_plateau = method == NcclMethod{NcclAlgorithm::kRing, NcclProtocol::kSimple} &&
                          call.nodes > 1 && call.collective == Collective::kAllReduce &&
                          bytes / (static_cast<std::uint64_t>(graph.ring.count) *
                                   static_cast<std::uint64_t>(call.ranks)) >=
                              64;
  return !is_plateau ? 1.0 : graph.compute_capability < 80 ? 1.9 : 1.4;
}

}  // namespace

std::optional<NcclCost> nccl_cost(const NcclGraph& graph, const NcclCall& call, NcclMethod method) {
  assert(call.ranks >= 2 && call.nodes >= 1 && call.nodes <= call.ranks && graph.ring.count >= 1);
  if (!is_offered(graph, call, method)) {
    return std::nullopt;
  }
  const double bandwidth = algorithm_bandwidth(graph, call, method);
  if (bandwidth <= 0.0) {
    return std::nullopt;
  }
  return NcclCost{.latency = microseconds(latency(graph, call, method)),
                  .bandwidth = gigabytes_per_second(bandwidth)};
}

std::optional<NcclTime> nccl_time(Bytes size, const NcclGraph& graph, const NcclCall& call,
                                  NcclMethod method) {
  const std::optional<NcclCost> cost = nccl_cost(graph, call, method);
  if (!cost) {
    return std::nullopt;
  }
  const auto bytes = static_cast<std::uint64_t>(size.value());
  return NcclTime{.latency = latency_factor(bytes, graph, call, method) * cost->latency,
                  .transfer = size / cost->bandwidth / size_correction(bytes, graph, call, method)};
}

NcclChoice nccl_choice(Bytes size, const NcclGraph& graph, const NcclCall& call) {
  assert(graph.enabled.algorithms[index_of(NcclAlgorithm::kRing)]);
  std::optional<NcclChoice> best;
  for (const NcclMethod method : kNcclMethods) {
    if (!graph.enabled.algorithms[index_of(method.algorithm)] ||
        !graph.enabled.protocols[index_of(method.protocol)]) {
      continue;
    }
    const std::optional<NcclTime> time = nccl_time(size, graph, call, method);
    if (time && (!best || time->total() < best->time.total())) {
      best = {.method = method, .time = *time};
    }
  }
  assert(best);
  return best.value_or(NcclChoice{});
}

}  // namespace ptdp
