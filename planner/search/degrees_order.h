// The order in which a search looks at splits of a model over GPUs: what may be fastest first.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "planner/search/enumerate.h"

namespace ptdp {

/// A lower bound of the time of an iteration: the products of the linear layers at the rate of
/// infinitely long products, shared by all GPUs in use. Source of the FLOPs: arXiv:2205.05198,
/// appendix A, without those of attention.
class ComputeFloor {
 public:
  /// Keeps a reference to `replicas`, which are all that a search may use.
  ComputeFloor(const Scenario& scenario, std::int64_t gpus, const std::vector<Replicas>& replicas);

  /// Returns the bound on one GPU. Returns 0 when products were measured one by one
  /// (measured_operations), since these may be faster.
  [[nodiscard]] Seconds gpu_seconds() const { return gpu_seconds_; }
  /// Returns the bound for a split, with the largest number of replicas that the GPUs allow.
  [[nodiscard]] Seconds of(const Degrees& degrees) const;

 private:
  Seconds gpu_seconds_;
  std::int64_t gpus_;
  const std::vector<Replicas>& replicas_;
};

/// Sorts splits by their floor, lowest first; of equal ones the fewest GPUs per replica first.
void order_degrees(std::vector<Degrees>& all, const ComputeFloor& floor);

}  // namespace ptdp
