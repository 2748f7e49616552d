// The hardware: a GPU, the links between GPUs, and how they form a cluster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/measured_curve.h"
#include "cost_model/inputs/measured_operation.h"
#include "cost_model/inputs/nccl_graph.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/text/described.h"
#include "cost_model/units.h"

namespace ptdp {

/// Fractions of the GPU's peak that a fused attention kernel reaches.
struct AttentionRate {
  std::string kernel;  ///< "flash-1", "flash-2", "cudnn": what a StackSpec names.
  double forward = 0.0;
  double backward = 0.0;

  friend bool operator==(const AttentionRate&, const AttentionRate&) = default;
};

/// The blocks in which products are formed.
struct MatmulTile {
  int rows = 0;
  int columns = 0;

  friend bool operator==(const MatmulTile&, const MatmulTile&) = default;
};

/// One accelerator. Peaks are data-sheet figures without sparsity; efficiencies say what kernels
/// reach of them and where that was measured (`source`).
struct GpuSpec {
  std::string name;
  std::string source;
  FlopsPerSecond peak_fp16;
  FlopsPerSecond peak_bf16;  ///< 0: the GPU has no bf16 matrix units. So of the next two.
  FlopsPerSecond peak_fp32;
  FlopsPerSecond peak_fp64;
  FlopsPerSecond peak_fp8;  ///< 0: no matrix units for it.
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  int num_multiprocessors = 0;
  double matmul_efficiency = 0.0;     ///< Of peak, for an infinitely long inner dimension.
  double matmul_startup_depth = 0.0;  ///< Inner-dimension steps that filling a tile's pipe costs.
  double matmul_output_depth = 0.0;   ///< Steps per byte of an element of the result, out and in.
  double matmul_wave_overlap = 0.0;   ///< Of the unfilled part of a last wave, what costs no time.
  /// The first of these for products in 8 bits; none: the same.
  std::optional<double> fp8_matmul_efficiency = std::nullopt;
  bool fp8_any_layout = false;  ///< Of factors; else products in 8 bits read rows along k only.
  bool fp8_mx = false;          ///< Scales of 32 elements, in the matrix units.
  std::optional<MatmulTile> matmul_tile = std::nullopt;  ///< None: those of operations/gemm.h.
  double matmul_memory_efficiency = 0.0;  ///< Of memory bandwidth, for products bound by it.
  double memory_efficiency = 0.0;         ///< Of memory bandwidth, for element-wise kernels.
  Seconds kernel_latency;  ///< Start and end of a kernel, which its successor awaits.
  std::vector<AttentionRate> attention_rates;
  /// One each of operation and precision; they correct what the rest of this says.
  std::vector<MeasuredOperation> measured_operations = {};

  /// Peak of matrix products in `precision`; 0 where the GPU lacks it.
  [[nodiscard]] FlopsPerSecond peak(Precision precision) const {
    switch (precision) {
      case Precision::kFp16:
        return peak_fp16;
      case Precision::kBf16:
        return peak_bf16;
      case Precision::kFp32:
        return peak_fp32;
      case Precision::kFp64:
        return peak_fp64;
    }
    return {};
  }
  /// What matmul_time takes for a peak of products in 8 bits: with matmul_efficiency, what
  /// fp8_matmul_efficiency says.
  [[nodiscard]] FlopsPerSecond fp8_rate() const {
    return FlopsPerSecond(peak_fp8.value() *
                          (fp8_matmul_efficiency.value_or(matmul_efficiency) / matmul_efficiency));
  }
  friend bool operator==(const GpuSpec&, const GpuSpec&) = default;
};

/// A link as one GPU sees it, per direction.
struct LinkSpec {
  BytesPerSecond bandwidth;  ///< Data-sheet rate.
  double efficiency = 1.0;   ///< Fraction of it that large messages reach.
  /// The same of large collectives, which keep a link busier than messages between neighbours do;
  /// none: `efficiency`.
  std::optional<double> collective_efficiency = std::nullopt;
  Seconds hop_latency;  ///< Per step of a ring.

  [[nodiscard]] BytesPerSecond effective_bandwidth() const {
    return BytesPerSecond(bandwidth.value() * efficiency);
  }
  [[nodiscard]] BytesPerSecond collective_bandwidth() const {
    return BytesPerSecond(bandwidth.value() * collective_efficiency.value_or(efficiency));
  }
  friend bool operator==(const LinkSpec&, const LinkSpec&) = default;
};

/// What the times of a kind of work are to be multiplied with.
struct TimeFactors {
  double matmul = 1.0;
  double attention = 1.0;
  double memory_bound = 1.0;   ///< Element-wise work and the optimizer.
  double communication = 1.0;  ///< Collectives and messages.

  friend bool operator==(const TimeFactors&, const TimeFactors&) = default;
};

/// What compute takes while `cores` of a node compute, of the time of one that computes alone:
/// they share caches, memory bandwidth, power, and where two are threads of one core its units.
struct BusyCores {
  int cores = 0;
  double matmul = 1.0;
  double attention = 1.0;
  double memory_bound = 1.0;
  double optimizer = 1.0;  ///< Which works on more than caches hold.
  /// Of compute, what ranks on as many cores lose that wait for the slowest several times a layer,
  /// as those of a tensor-parallel group do.
  double skew = 0.0;

  friend bool operator==(const BusyCores&, const BusyCores&) = default;
};

/// Measured all-reduces of `ranks` GPUs, equally many on each of `nodes`.
struct AllReduceCurve {
  int ranks = 0;
  int nodes = 1;
  MeasuredCurve curve;

  friend bool operator==(const AllReduceCurve&, const AllReduceCurve&) = default;
};

/// A level of the network above the node: groups that span at most `gpus` consecutive GPUs have
/// 1/oversubscription of their NIC's rate.
struct NetworkTier {
  std::int64_t gpus = 0;
  double oversubscription = 1.0;

  friend bool operator==(const NetworkTier&, const NetworkTier&) = default;
};

/// How all-reduces with several members on each of several nodes are carried out.
enum class AllReduceAcrossNodes {
  kFlat,          ///< As one group, the way the software's library does it.
  kHierarchical,  ///< Reduce-scatter in each node, all-reduce between nodes, all-gather in each.
  kFaster,        ///< Whichever of the two takes less.
};

/// A GPU's share of the host that its node has: memory, what programs reach of its bandwidth, and
/// what large copies reach of the link, per direction.
struct HostSpec {
  Bytes memory;
  BytesPerSecond memory_bandwidth;
  BytesPerSecond link_bandwidth;

  friend bool operator==(const HostSpec&, const HostSpec&) = default;
};

/// A cluster of equal nodes.
struct ClusterSpec {
  std::string name;
  std::string source;
  std::string default_stack;
  GpuSpec gpu;
  int gpus_per_node = 0;
  int gpus_per_tray = 0;  ///< Of a rack that is one node: what jobs take as a whole; 0: any GPU.
  LinkSpec nvlink;        ///< Within a node.
  LinkSpec nic;           ///< Each GPU's share of the node's network.
  Seconds collective_launch;                      ///< Fixed cost of any collective.
  std::vector<AllReduceCurve> all_reduce_curves;  ///< Preferred to any model.
  /// Likewise; where there is none, half an all-reduce.
  std::vector<AllReduceCurve> reduce_scatter_curves = {};
  std::vector<AllReduceCurve> all_gather_curves = {};
  /// Exchanges between neighbours of a pipeline on a node, a message of one size in each direction,
  /// everything included; empty: by `nvlink` and the stack.
  MeasuredCurve message_curve = {};
  std::optional<NcclSpec> nccl;  ///< For its tuner; none: one ring.
  AllReduceAcrossNodes all_reduce_across_nodes = AllReduceAcrossNodes::kFlat;
  std::optional<HostSpec> host = std::nullopt;  ///< Where it is known: something can be offloaded.
  std::vector<NetworkTier> network_tiers;       ///< Growing; empty: one flat tier without bound.
  /// Cores that the ranks of a node share, where a rank is a thread or a process of a host and the
  /// "GPU" is a core: more ranks than cores take turns. None: every rank has its own device.
  std::optional<int> cores_per_node = std::nullopt;
  /// How many times as long its hosts take to launch a kernel as those of x86.
  double launch_slowdown = 1.0;
  std::vector<BusyCores> busy_cores = {};  ///< Growing, from two cores on.
  TimeFactors time_factors = {};           ///< A fit's, on top of all that is measured.

  /// GPUs that the network tiers allow; 0: no bound is known.
  [[nodiscard]] std::int64_t max_gpus() const {
    return network_tiers.empty() ? 0 : network_tiers.back().gpus;
  }
  friend bool operator==(const ClusterSpec&, const ClusterSpec&) = default;
};

// The two directions of JSON, for ObjectReader and ObjectWriter. In a cluster, `gpu` and
// `all_reduce_curves` may also be the names of shipped ones.
template <class Fields>
void describe(Fields& fields, Described<Fields, AttentionRate>& rate);
template <class Fields>
void describe(Fields& fields, Described<Fields, MatmulTile>& tile);
template <class Fields>
void describe(Fields& fields, Described<Fields, GpuSpec>& gpu);
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
template <class Fields>
void describe(Fields& fields, Described<Fields, ClusterSpec>& cluster);

/// A GPU's profile by name ("a100-80gb-sxm") or path. Throws Error as profile_file().
[[nodiscard]] GpuSpec find_gpu(const std::string& name_or_path);

/// The all-reduce curves of a file of curves by name or path. Throws Error as profile_file().
[[nodiscard]] std::vector<AllReduceCurve> find_all_reduce_curves(const std::string& name_or_path);

}  // namespace ptdp
