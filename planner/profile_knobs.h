// What of a cluster and a stack measured runs can correct: one factor for each kind of cost.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "cost_model/spec/scenario.h"

namespace ptdp {

/// A kind of cost that the profiles time with constants of its own.
enum class ProfileKnob : std::uint8_t {
  kProducts,           ///< matmul_efficiency, matmul_memory_efficiency.
  kAttention,          ///< The rates of the stack's attention kernel.
  kMemory,             ///< memory_efficiency.
  kOverhead,           ///< kernel_latency; the stack's microbatch_overhead, host_time_per_kernel.
  kOptimizer,          ///< The stack's optimizer_traffic, loss_scaling_traffic.
  kCollectiveLatency,  ///< Within a node: launch, hops, the lowest time of measured curves.
  kCollectiveRate,     ///< Within a node: collective efficiency, what curves have beyond that.
  kMessageLatency,     ///< The stack's pipeline_latency.
  kMessageRate,        ///< Efficiency of the links within a node, for messages.
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
};
inline constexpr std::array kProfileKnobs = {
    ProfileKnobText{ProfileKnob::kProducts, "products"},
    ProfileKnobText{ProfileKnob::kAttention, "attention"},
    ProfileKnobText{ProfileKnob::kMemory, "memory-bound work", ProfileKnob::kOverhead},
    ProfileKnobText{ProfileKnob::kOverhead, "launches and overhead", ProfileKnob::kMemory},
    ProfileKnobText{ProfileKnob::kOptimizer, "optimizer"},
    ProfileKnobText{ProfileKnob::kCollectiveLatency, "latency of collectives",
                    ProfileKnob::kCollectiveRate},
    ProfileKnobText{ProfileKnob::kCollectiveRate, "transfer of collectives",
                    ProfileKnob::kCollectiveLatency},
    ProfileKnobText{ProfileKnob::kMessageLatency, "latency of messages",
                    ProfileKnob::kMessageRate},
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
/// time. A rate beyond its data-sheet peak, which is then disproved, raises the peak; the other
/// fractions of that peak fall so that their rates stay. Of measured curves, neighbouring points
/// differ by no more than a curve may (MeasuredCurve).
[[nodiscard]] Scenario with_factors(Scenario scenario, const KnobFactors& factors);

}  // namespace ptdp
