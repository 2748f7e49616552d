// The memory of all configurations of a family, derived from the memory of a few of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cost_model/inputs/scenario.h"
#include "cost_model/memory/memory.h"
#include "planner/search/memory_fit.h"

namespace ptdp {

/// Judges whether configurations of a family fit: those that differ only in dp, ZeRO stage,
/// microbatch size and the split of layers. For stages with equal layers that keep as many
/// microbatches, memory is
///
///   fixed + (microbatch size)·(what a sequence takes) + sharded/dp
///
/// Keeps references to its arguments.
class FamilyMemory {
 public:
  FamilyMemory(const Scenario& scenario, MemoryFit& fit) : scenario_(scenario), fit_(fit) {}

  /// Begins the family of `config` and forgets the memory of the family before. Which layers stages
  /// have stays known as long as families have the same schedule and stages.
  void begin_family(const ParallelConfig& config);

  /// Returns the number of a split of layers. Equal splits have one number, valid until the family
  /// ends.
  [[nodiscard]] std::size_t number_of(const std::vector<int>& layers_per_stage);
  /// Returns the layers per virtual stage of the split with this number.
  [[nodiscard]] const std::vector<int>& layers_per_stage(std::size_t layers_of_config) const {
    return layers_of_configs_[layers_of_config].layers_per_stage;
  }

  /// Returns the verdict of MemoryFit::judge(); `largest` may differ by rounding, some 1e-15, where
  /// rounding cannot change the verdict. `split` is the number of the configuration's
  /// layers_per_stage; `has_replicas` is what rank_parameters.h says of the configuration.
  [[nodiscard]] MemoryVerdict judge(const ParallelConfig& config, std::size_t layers_of_config,
                                    bool has_replicas);

 private:
  /// The memory of one stage [B] as a function of the microbatch size and dp.
  struct Line {
    double fixed = 0.0;         ///< Memory that neither the size nor dp changes [B].
    double per_sequence = 0.0;  ///< Memory per sequence of a microbatch [B].
    double whole = 0.0;         ///< The optimizer's states without ZeRO [B].
    double sharded = 0.0;       ///< Everything sharded under ZeRO, times dp [B].
  };
  /// The lines of the stages that may be the heaviest. They are worked out when needed: first the
  /// ends, which most often decide.
  struct Lines {
    std::int64_t microbatches_kept = 0;
    bool has_replicas = false;
    int sharding = 0;           ///< ZeRO stage when more than the optimizer is sharded, else 0.
    int size = 0;               ///< Microbatch size that the lines hold for; 0: any.
    std::vector<Line> ends;     ///< Lines of the first stage and of the last.
    std::vector<Line> between;  ///< Lines of the stages in `LayersOfConfig::unlike_stages`.
    bool has_between = false;   ///< Whether `between` is worked out.
  };
  /// A split of layers with what is known of its stages.
  struct LayersOfConfig {
    std::vector<int> layers_per_stage;
    std::optional<LayersOfRanks> layers;  ///< Layers of each stage, set when first needed.
    /// Stages between the ends that may be the heaviest there; set together with `layers`.
    std::vector<int> unlike_stages;
    std::vector<Lines> lines;
  };

  /// Returns the constraint that a stage of the configuration violates, with the stages in the
  /// order of find_memory_violation(). `fits(line)` says whether a stage fits.
  template <class Fits>
  [[nodiscard]] std::optional<Constraint> find_violation(const ParallelConfig& config,
                                                         LayersOfConfig& layers_of_config,
                                                         Lines& lines, const Fits& fits);
  [[nodiscard]] Lines& lines_of(const ParallelConfig& config, LayersOfConfig& layers_of_config,
                                bool has_replicas) const;
  [[nodiscard]] Line line_of(const ParallelConfig& config, LayersOfConfig& layers_of_config,
                             int stage);

  const Scenario& scenario_;
  MemoryFit& fit_;
  ParallelConfig family_;
  std::int64_t most_kept_ = 0;  // microbatches that a stage keeps at most, however many there are
  std::vector<LayersOfConfig> layers_of_configs_;
  std::optional<MemoryOfRanks> memories_;  // at microbatch size size_
  int size_ = 0;
};

}  // namespace ptdp
