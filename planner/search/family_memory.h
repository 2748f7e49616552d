// The memory of all configurations of a family, from that of a few of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/memory/memory.h"
#include "planner/search/memory_fit.h"

namespace ptdp {

/// Judges configurations that differ in dp, ZeRO stage, microbatch size and the split of layers
/// alone. Of stages with the same layers that keep as many microbatches, memory is a sum of what is
/// the same for all, what is proportional to the microbatch size, and what is sharded, inversely
/// proportional to dp. Keeps references to its arguments.
class FamilyMemory {
 public:
  FamilyMemory(const Scenario& scenario, MemoryFit& fit) : scenario_(scenario), fit_(fit) {}

  /// Forgets what is known: the family of `config` begins. Which layers stages have is known as
  /// long as families have the same stages.
  void begin_family(const ParallelConfig& config);

  /// The number of a split of layers: one for all that are equal, until the family ends.
  [[nodiscard]] std::size_t number_of(const std::vector<int>& layers_per_stage);
  [[nodiscard]] const std::vector<int>& layers_per_stage(std::size_t split) const {
    return splits_[split].layers_per_stage;
  }

  /// What MemoryFit::judge() says; up to rounding, some 1e-15, where that cannot decide. `split`:
  /// the number of the configuration's layers_per_stage; `has_replicas` as of rank_parameters.h.
  [[nodiscard]] MemoryVerdict judge(const ParallelConfig& config, std::size_t split,
                                    bool has_replicas);

 private:
  /// Of a stage [B]; the optimizer's part whole or sharded.
  struct Line {
    double fixed = 0.0;
    double per_sequence = 0.0;  ///< Of a microbatch.
    double whole = 0.0;
    double sharded = 0.0;  ///< Times dp.
  };
  /// The stages that may be the heaviest. They are worked out as they are needed: the ends first,
  /// which most often decide.
  struct Lines {
    std::int64_t microbatches_kept = 0;
    bool has_replicas = false;
    int sharding = 0;        ///< The ZeRO stage, where more than the optimizer is sharded.
    std::vector<Line> ends;  ///< The first stage's, and the last's.
    std::vector<Line> between;
    bool has_between = false;
  };
  struct Split {
    std::vector<int> layers_per_stage;
    std::optional<LayersOfStages> layers;  ///< Once they are needed, and
    std::vector<int> unlike_stages;  ///< the others that may be the heaviest between the ends.
    std::vector<Lines> lines;
  };

  /// In find_violation's order, by whether a stage fits.
  template <class Fits>
  [[nodiscard]] std::optional<Constraint> find_violation(const ParallelConfig& config, Split& split,
                                                         Lines& lines, const Fits& fits);
  [[nodiscard]] Lines& lines_of(const ParallelConfig& config, Split& split,
                                bool has_replicas) const;
  [[nodiscard]] Line line_of(const ParallelConfig& config, Split& split, int stage);

  const Scenario& scenario_;
  MemoryFit& fit_;
  ParallelConfig family_;
  std::int64_t most_kept_ = 0;  // microbatches, of however many
  std::vector<Split> splits_;
  std::optional<StageMemories> memories_;  // at the size
  int size_ = 0;
};

}  // namespace ptdp
