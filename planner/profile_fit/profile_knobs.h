// What measured runs can correct in a cluster and a stack: one factor for each kind of cost.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/inputs/scenario.h"

namespace ptdp {

/// Largest time factor of a profile; the smallest is 1 over it.
inline constexpr double kLargestTimeFactor = 100.0;

/// A kind of cost that the profiles time with constants of its own.
enum class ProfileKnob : std::uint8_t {
  kProducts,   ///< Products: the cluster's time_factors.matmul.
  kAttention,  ///< Attention: the cluster's time_factors.attention.
  kMemory,     ///< Memory-bound work: the cluster's time_factors.memory_bound.
  /// Launches and overhead: the GPU's kernel_latency, the stack's microbatch_overhead and
  /// host_time_per_kernel.
  kOverhead,
  kOptimizer,  ///< The optimizer: the stack's optimizer_traffic and loss_scaling_traffic.
  /// Latency of collectives within a node: launch, hops, and the lowest time of measured curves.
  kCollectiveLatency,
  /// Transfer of collectives within a node: the link's collective efficiency, and the time of
  /// measured curves beyond the lowest.
  kCollectiveRate,
  /// Latency of messages: the stack's pipeline_latency, and the lowest time of the message curve.
  kMessageLatency,
  /// Transfer of messages within a node: the link's efficiency, and the time of the message curve
  /// beyond the lowest.
  kMessageRate,
  kNetworkLatency,  ///< Latency between nodes: hops, and the lowest time of measured curves.
  /// Transfer between nodes: the link's efficiencies, and the time of measured curves beyond the
  /// lowest.
  kNetworkRate
};
inline constexpr int kNumProfileKnobs = 11;

/// The name, partner and bound of a knob. Partners time the same things: where runs cannot tell
/// them apart, they move together.
struct ProfileKnobText {
  ProfileKnob knob = ProfileKnob::kProducts;
  std::string_view name;       ///< Name in messages and tables.
  ProfileKnob partner = knob;  ///< Partner of the knob; the knob itself if it has none.
  /// Largest correction; the smallest is 1 over it. A profile that is further off was made for
  /// another machine.
  double largest = 1000.0;
};
/// Texts of all knobs, in the order of the enumerators.
inline constexpr std::array kProfileKnobs = {
    ProfileKnobText{ProfileKnob::kProducts, "products", ProfileKnob::kProducts, kLargestTimeFactor},
    ProfileKnobText{ProfileKnob::kAttention, "attention", ProfileKnob::kAttention,
                    kLargestTimeFactor},
    ProfileKnobText{ProfileKnob::kMemory, "memory-bound work", ProfileKnob::kOverhead,
                    kLargestTimeFactor},
    ProfileKnobText{ProfileKnob::kOverhead, "launches and overhead", ProfileKnob::kMemory},
    // The bound is that of a stack's optimizer_traffic.
    ProfileKnobText{ProfileKnob::kOptimizer, "optimizer", ProfileKnob::kOptimizer,
                    kLargestTimeFactor},
    ProfileKnobText{ProfileKnob::kCollectiveLatency, "latency of collectives",
                    ProfileKnob::kCollectiveRate},
    ProfileKnobText{ProfileKnob::kCollectiveRate, "transfer of collectives",
                    ProfileKnob::kCollectiveLatency},
    ProfileKnobText{ProfileKnob::kMessageLatency, "latency of messages", ProfileKnob::kMessageRate},
    ProfileKnobText{ProfileKnob::kMessageRate, "transfer of messages",
                    ProfileKnob::kMessageLatency},
    ProfileKnobText{ProfileKnob::kNetworkLatency, "latency between nodes",
                    ProfileKnob::kNetworkRate},
    ProfileKnobText{ProfileKnob::kNetworkRate, "transfer between nodes",
                    ProfileKnob::kNetworkLatency}};

/// By knob, how many times as long as the profiles say its kind of cost takes. Positive; 1 leaves
/// the profiles as they are.
class KnobFactors {
 public:
  KnobFactors() { factors_.fill(1.0); }
  [[nodiscard]] double& operator[](ProfileKnob knob) {
    return factors_[static_cast<std::size_t>(knob)];
  }
  [[nodiscard]] double operator[](ProfileKnob knob) const {
    return factors_[static_cast<std::size_t>(knob)];
  }

 private:
  std::array<double, kNumProfileKnobs> factors_{};
};

/// Returns the scenario with constants of its cluster and stack changed so that every kind of cost
/// takes its factor times as long. Time factors end at kLargestTimeFactor. A link whose rate would
/// exceed its data-sheet bandwidth, which is thereby disproved, gets as much bandwidth as its rate.
/// Neighboring points of measured curves differ by no more than a MeasuredCurve allows.
[[nodiscard]] Scenario with_factors(Scenario scenario, const KnobFactors& factors);

}  // namespace ptdp
