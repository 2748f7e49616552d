// Costs of a microbatch, computed once for all configurations that share them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "cost_model/pipeline_rank/rank_costs.h"

namespace ptdp {

/// Caches microbatch_costs() of configurations, keyed by what these costs depend on:
///
///   - the degrees within a stage, the microbatch size, sequence parallelism;
///   - the modules recomputed, whether backward passes are split, whether shards are cast;
///   - whether tokens travel to experts behind other microbatches;
///   - how tensor-parallel, context-parallel and expert groups lie on nodes;
///   - how many cores of a node are busy;
///   - how slow the slowest of all GPUs is (slowest_card_factor()).
///
/// Keeps a reference to the scenario.
class CostsCache {
 public:
  explicit CostsCache(const Scenario& scenario) : scenario_(scenario) {}

  /// Returns the costs of a configuration, computed on first use.
  [[nodiscard]] const std::shared_ptr<const MicrobatchCosts>& find(const ParallelConfig& config) {
    return find(class_of(config), config);
  }

  /// Returns the costs class of a configuration: a number that is equal for all configurations
  /// whose costs depend on the same values, the microbatch size aside.
  [[nodiscard]] int class_of(const ParallelConfig& config);
  /// Returns the costs of a configuration whose class_of() is `costs_class`.
  [[nodiscard]] const std::shared_ptr<const MicrobatchCosts>& find(int costs_class,
                                                                   const ParallelConfig& config);

 private:
  /// The nodes that a group touches, and its members on the node that has the fewest.
  using Place = std::pair<std::int64_t, std::int64_t>;
  using Key = std::tuple<int, int, int, int, bool, RecomputeModules, bool, bool, bool, int, double,
                         Place, Place, Place, Place, Place>;

  [[nodiscard]] Key key_of(const ParallelConfig& config) const;

  const Scenario& scenario_;
  std::map<Key, int> classes_;
  std::vector<std::map<int, std::shared_ptr<const MicrobatchCosts>>>
      costs_;  // by class, then microbatch size
};

}  // namespace ptdp
