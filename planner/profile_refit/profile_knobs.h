// What of a cluster and a stack measured runs can correct: one factor for each kind of cost.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/inputs/scenario.h"

namespace ptdp {

/// Largest time factor of a profile, and 1 over the smallest.
inline constexpr double kLargestTimeFactor = 100.0;

/// A kind of cost that the profiles time with constants of its own.
enum class ProfileKnob : std::uint8_t {
  kProducts,           ///< time_factors.matmul,
  kAttention,          ///< .attention
  kMemory,             ///< and .memory_bound of the cluster.
  kOverhead,           ///< kernel_latency; the stack's microbatch_overhead, host_time_per_kernel.
  kOptimizer,          ///< The stack's optimizer_traffic, loss_scaling_traffic.
  kCollectiveLatency,  ///< Within a node: launch, hops, the lowest time of measured curves.
  kCollectiveRate,     ///< Within a node: collective efficiency, what curves have beyond that.
  kMessageLatency,     ///< The stack's pipeline_latency, the lowest time of the message curve.
  kMessageRate,        ///< Within a node: efficiency of links, what the curve has beyond that.
  kNetworkLatency,     ///< Between nodes: as the four above.
  kNetworkRate
};
inline constexpr int kNumProfileKnobs = 11;

/// A knob in messages and tables, and the one that times the same things: where they cannot be told
/// apart they move together.
struct ProfileKnobText {
  ProfileKnob knob = ProfileKnob::kProducts;
  std::string_view name;
  ProfileKnob partner = knob;  ///< Itself: none.
  /// A correction is no larger, nor smaller than 1 over it: a profile that is further off was made
  /// for another machine.
  double largest = 1000.0;
};
inline constexpr std::array kProfileKnobs = {
    ProfileKnobText{ProfileKnob::kProducts, "products", ProfileKnob::kProducts, kLargestTimeFactor},
    ProfileKnobText{ProfileKnob::kAttention, "attention", ProfileKnob::kAttention,
                    kLargestTimeFactor},
    ProfileKnobText{ProfileKnob::kMemory, "memory-bound work", ProfileKnob::kOverhead,
                    kLargestTimeFactor},
    ProfileKnobText{ProfileKnob::kOverhead, "launches and overhead", ProfileKnob::kMemory},
    // As far as a stack's optimizer_traffic may go.
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

/// How many times as long as the profiles say each kind takes; 1: as they say. Positive.
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

/// The scenario with its cluster's and stack's constants such that every kind takes its factor's
/// time; time factors end at kLargestTimeFactor. A link whose rate exceeds its data-sheet
/// bandwidth, which is then disproved, has as much bandwidth. Of measured curves, neighbouring
/// points differ by no more than a curve may (MeasuredCurve).
[[nodiscard]] Scenario with_factors(Scenario scenario, const KnobFactors& factors);

}  // namespace ptdp
