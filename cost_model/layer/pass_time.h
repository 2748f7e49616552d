// The time of a pass through layers, by what takes it.
#pragma once

#include "cost_model/units.h"

namespace ptdp {

/// Time of one pass through layers, by what it is spent on. The terms follow one another, so they
/// add up.
struct PassTime {
  Seconds matmul;            ///< Products of linear layers.
  Seconds attention;         ///< The attention core.
  Seconds memory_bound;      ///< Norms, biases, dropouts, activations.
  Seconds tensor_parallel;   ///< Collectives that compute does not hide.
  Seconds context_parallel;  ///< Waiting of attention for other parts of sequences.
  Seconds expert_parallel;   ///< Tokens on their way to experts and back, not hidden.
  Seconds launch;            ///< Latency of kernels, or waiting for the host to launch them.

  [[nodiscard]] Seconds total() const { return compute() + collectives() + launch; }
  [[nodiscard]] Seconds compute() const { return matmul + attention + memory_bound; }
  [[nodiscard]] Seconds collectives() const {
    return tensor_parallel + context_parallel + expert_parallel;
  }
  PassTime& operator+=(const PassTime& other);
  friend PassTime operator+(PassTime a, const PassTime& b) { return a += b; }
  friend PassTime operator*(PassTime pass, double factor);
};

}  // namespace ptdp
