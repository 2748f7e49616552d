// A job with the configuration that it is trained under, and what follows from the two.
#pragma once

#include <cstdint>
#include <optional>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/stage/microbatch_costs.h"
#include "cost_model/stage/stage_layers.h"

namespace ptdp {

/// Where the groups of a configuration lie.
struct Placements {
  GroupPlacement tensor;
  GroupPlacement pipeline;
  /// GPUs that hold the same parameters: those that share sequences and the replicas, and where the
  /// pipeline is bidirectional both of each one's copies, which lie a pipeline's distance apart.
  GroupPlacement data;
  GroupPlacement expert_data;  ///< GPUs that hold the same parameters of experts.
  /// GPUs that hold the same shards, where dp_replicate makes several of each; `data` and
  /// `expert_data` are then those that share one replica.
  GroupPlacement shard_replicas;
};
[[nodiscard]] Placements place_groups(const ParallelConfig& config, const ClusterSpec& cluster);

/// What everything beyond a stage is worked out from: costs, schedules, memory, plans. What follows
/// from the job is found when it is first asked for, once. Not for several threads at once.
class PlannedJob {
 public:
  /// Keeps references to both; `known_costs` are microbatch_costs() of the two, if somebody has
  /// them, and outlive it.
  PlannedJob(const Scenario& scenario, const ParallelConfig& config,
             const MicrobatchCosts* known_costs = nullptr)
      : scenario_(scenario), config_(config), known_costs_(known_costs) {}

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] const ParallelConfig& config() const { return config_; }
  [[nodiscard]] const TransformerConfig& model() const { return scenario_.job.model; }
  [[nodiscard]] const ClusterSpec& cluster() const { return scenario_.cluster; }
  [[nodiscard]] const StackSpec& stack() const { return scenario_.stack; }
  /// Microbatches per replica and iteration: num_microbatches().
  [[nodiscard]] std::int64_t microbatches() const {
    return num_microbatches(scenario_.job.global_batch_size, config_);
  }
  /// Where the configuration's groups lie.
  [[nodiscard]] const Placements& groups() const;
  /// Costs of a microbatch: microbatch_costs().
  [[nodiscard]] const MicrobatchCosts& costs() const;

 private:
  const Scenario& scenario_;
  const ParallelConfig& config_;
  const MicrobatchCosts* known_costs_;
  mutable std::optional<MicrobatchCosts> own_costs_;
  mutable std::optional<Placements> groups_;
};

}  // namespace ptdp
