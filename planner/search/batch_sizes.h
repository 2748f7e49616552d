// Which microbatch sizes go with which number of replicas, for all configurations that share them.
#pragma once

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "planner/constraints/constraint.h"
#include "planner/search/enumerate.h"

namespace ptdp {

/// The microbatch sizes of a number of replicas: those that can run, and how many violate what.
struct BatchSizes {
  std::vector<int> allowed;  ///< Ascending.
  using Violations = std::vector<std::pair<Constraint, std::int64_t>>;
  Violations violations;
  Violations without_experts;  ///< Of all sizes, where experts do not divide the ranks.
};

/// find_batch_violation() of every size, looked up once for all configurations of a schedule with
/// as many stages, chunks and expert groups that divide their ranks or do not; of those that use
/// the memory of hosts each for itself. Keeps references.
class BatchTable {
 public:
  BatchTable(const Scenario& scenario, const std::vector<Replicas>& replicas)
      : scenario_(scenario), replicas_(replicas) {}

  /// Of each of the replicas, in order, for a configuration of any dp and microbatch size whose
  /// experts divide its ranks. Valid until the next is sought: where models have thousands of
  /// layers, there are too many to keep.
  [[nodiscard]] const std::vector<BatchSizes>& find(const ParallelConfig& config);

 private:
  const Scenario& scenario_;
  const std::vector<Replicas>& replicas_;
  std::map<ParallelConfig, std::vector<BatchSizes>> by_schedule_;
};

}  // namespace ptdp
