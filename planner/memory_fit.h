// Whether configurations fit into memory, with what they share worked out once.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "cost_model/analytic/memory.h"
#include "cost_model/spec/scenario.h"
#include "planner/constraint.h"

namespace ptdp {

/// What a configuration's stages hold that were looked at, and which of them is out of memory.
struct MemoryVerdict {
  Bytes largest;  ///< Of all stages where the configuration fits.
  std::optional<Constraint> violation = std::nullopt;
};

/// A split of layers over stages, and the stages between the first and the last one of which is
/// the heaviest of those.
struct LayerSplit {
  LayersOfStages layers;
  std::vector<int> unlike_stages;
};

/// Memory of stages: without the optimizer's fixed, and that whole or sharded/dp. Of configurations
/// that differ in dp and ZeRO stage only, as far as is_linear_in_replicas() holds. Up to rounding,
/// some 1e-15 of the sum.
class MemoryLines {
 public:
  /// `config`: one of the configurations; `memories` and `split` are its own. Stages are worked out
  /// as they are needed: the ends first, which most often decide.
  [[nodiscard]] MemoryVerdict judge(const Scenario& scenario, const ParallelConfig& config,
                                    const StageMemories& memories, const LayerSplit& split,
                                    Bytes capacity);
  /// Nearest that the memory of a stage, if looked at, came to capacity in the last judge(), as a
  /// fraction: whether rounding may have decided.
  [[nodiscard]] double margin() const { return margin_; }

 private:
  struct Line {
    double fixed = 0.0;
    double whole = 0.0;
    double sharded = 0.0;
  };

  std::vector<Line> ends_;     // the first stage's, and the last's
  std::vector<Line> between_;  // of the others that may be heaviest, once they are needed
  bool has_between_ = false;
  double margin_ = 0.0;
};

/// Judges configurations under a capacity. Keeps a reference to the scenario.
class MemoryFit {
 public:
  MemoryFit(const Scenario& scenario, Bytes capacity);

  [[nodiscard]] Bytes capacity() const { return capacity_; }
  /// Whether the first stage or the last is the heaviest, and both grow with the microbatch size.
  [[nodiscard]] bool grows_with_size(const ParallelConfig& config) const {
    return config.layers_per_stage.empty() && !walks_orders_ && is_uniform_;
  }

  /// In find_violation's order. Where the first stage or the last does not fit, `largest` is its
  /// memory; where memory grows_with_size(), that of the larger.
  [[nodiscard]] MemoryVerdict judge(const ParallelConfig& config);
  /// The same by what is known of configurations with another dp or ZeRO stage; exact where it is
  /// near capacity.
  [[nodiscard]] MemoryVerdict judge(const ParallelConfig& config, const StageMemories& memories,
                                    MemoryLines& lines);

  /// What the stage with most layers holds at least, however layers are split: the state of their
  /// matrices and the activations of one microbatch in one chunk. Grows with the microbatch, and
  /// does not with dp.
  [[nodiscard]] Bytes least_of_any_split(const ParallelConfig& config) const;
  /// Whether no split of the layers over the stages fits into so much: of a kind of layers, all
  /// stages together hold fewer than there are, each with nothing else but the activations of as
  /// many microbatches as are in flight there. Once it holds, it does for larger microbatches,
  /// fewer replicas and less sharding.
  [[nodiscard]] bool fits_no_split(const ParallelConfig& config, Bytes capacity) const;

 private:
  using OrdersKey = std::tuple<ScheduleKind, int, int, std::int64_t>;

  [[nodiscard]] Bytes state_of_layer(const ParallelConfig& config, LayerKind kind) const;
  [[nodiscard]] std::vector<MemoryBreakdown> memory_of_stages(const ParallelConfig& config);
  [[nodiscard]] const LayerSplit& split_of(const ParallelConfig& config);

  const Scenario& scenario_;
  Bytes capacity_;
  bool walks_orders_;  ///< Whether memory is that of the orders of schedules.
  bool is_uniform_;    ///< Whether all layers are alike.
  std::map<OrdersKey, Schedule> orders_;
  double num_kept_actions_ = 0.0;
  // The last split that was looked at: many configurations in a row share one.
  ParallelConfig split_config_;
  std::optional<LayerSplit> split_;
};

/// Whether, of all that stages hold, dp changes the shards of the optimizer only, in inverse
/// proportion, besides what microbatches_kept() and whether there are replicas at all tell apart.
[[nodiscard]] bool is_linear_in_replicas(const Scenario& scenario, const ParallelConfig& config);
/// The configuration's number of microbatches, or one with which it holds as much.
[[nodiscard]] std::int64_t microbatches_kept(const Scenario& scenario,
                                             const ParallelConfig& config);

}  // namespace ptdp
