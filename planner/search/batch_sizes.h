// Which microbatch sizes can run with which number of replicas, for all configurations that share
// the answer.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "planner/constraints/constraint.h"
#include "planner/search/enumerate.h"

namespace ptdp {

/// The microbatch sizes for one number of replicas: which can run, and how many violate what.
struct BatchSizes {
  std::vector<int> allowed;  ///< Microbatch sizes that can run, ascending.
  /// Constraints, each with the number of sizes that violate it.
  using Violations = std::vector<std::pair<Constraint, std::int64_t>>;
  Violations violations;  ///< What the other sizes violate, when ep·etp divides the stage's GPUs.
  Violations without_experts;  ///< What all sizes violate, when ep·etp does not divide them.
};

/// Looks up find_batch_violation() of every microbatch size, once for all configurations that share
/// the schedule and the numbers of stages and chunks. Configurations that offload to host memory
/// are looked up one by one. Keeps references to its arguments.
class BatchTable {
 public:
  BatchTable(const Scenario& scenario, const std::vector<Replicas>& replicas)
      : scenario_(scenario), replicas_(replicas) {}

  /// Returns the batch sizes for each entry of `replicas`, in order; dp and microbatch size of
  /// `config` do not matter. The reference is valid until the next call: models with thousands of
  /// layers have too many entries to keep.
  [[nodiscard]] const std::vector<BatchSizes>& find(const ParallelConfig& config);

 private:
  const Scenario& scenario_;
  const std::vector<Replicas>& replicas_;
  std::map<ParallelConfig, std::vector<BatchSizes>> by_schedule_;
};

}  // namespace ptdp
