// Costs per microbatch, computed once for all configurations that share them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/stage/stage.h"

namespace ptdp {

/// Keyed by what microbatch_costs() depends on: degrees within a stage, microbatch size, sequence
/// parallelism, modules recomputed, whether backward passes are split, whether shards are cast,
/// whether tokens travel to experts behind other microbatches, how tensor-parallel,
/// context-parallel and expert groups lie on nodes, and how many cores of a node are busy. Keeps a
/// reference to the scenario.
class CostsCache {
 public:
  explicit CostsCache(const Scenario& scenario) : scenario_(scenario) {}

  [[nodiscard]] const std::shared_ptr<const MicrobatchCosts>& find(const ParallelConfig& config) {
    return find(class_of(config), config);
  }

  /// A number of all of that but the microbatch size: the same for configurations that share it.
  [[nodiscard]] int class_of(const ParallelConfig& config);
  /// Costs of a configuration whose class is known.
  [[nodiscard]] const std::shared_ptr<const MicrobatchCosts>& find(int costs_class,
                                                                   const ParallelConfig& config);

 private:
  /// Nodes of a group, and members on the one that has fewest.
  using Place = std::pair<std::int64_t, std::int64_t>;
  using Key = std::tuple<int, int, int, int, bool, RecomputeModules, bool, bool, bool, int, Place,
                         Place, Place, Place, Place>;

  [[nodiscard]] Key key_of(const ParallelConfig& config) const;

  const Scenario& scenario_;
  std::map<Key, int> classes_;
  std::vector<std::map<int, std::shared_ptr<const MicrobatchCosts>>>
      costs_;  // by class, then microbatch size
};

}  // namespace ptdp
