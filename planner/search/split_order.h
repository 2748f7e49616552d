// The splits of a model over GPUs, those that may be fastest first.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "planner/search/enumerate.h"

namespace ptdp {

/// A lower bound of the time of an iteration: the linear layers' products at the rate that the GPU
/// reaches for infinitely long ones, shared by all GPUs in use. Source of the FLOPs:
/// arXiv:2205.05198, appendix A, without attention's.
class ComputeFloor {
 public:
  /// Keeps a reference to `replicas`, all that a search may use.
  ComputeFloor(const Scenario& scenario, std::int64_t gpus, const std::vector<Replicas>& replicas);

  /// On one GPU; nothing where what products take was measured one by one (measured_operations):
  /// these may be faster.
  [[nodiscard]] Seconds gpu_seconds() const { return gpu_seconds_; }
  /// With as many replicas as there are GPUs for.
  [[nodiscard]] Seconds of(const ModelSplit& split) const;

 private:
  Seconds gpu_seconds_;
  std::int64_t gpus_;
  const std::vector<Replicas>& replicas_;
};

/// Puts what has the lowest floor first, and of equals what splits the model least.
void order_splits(std::vector<ModelSplit>& splits, const ComputeFloor& floor);

}  // namespace ptdp
