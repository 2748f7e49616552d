// A job with the configuration that it is trained under, and what follows from the two.
#pragma once

#include <cstdint>
#include <optional>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/pipeline_rank/microbatch_costs.h"
#include "cost_model/pipeline_rank/rank_layers.h"

namespace ptdp {

/// Placement on the cluster's nodes of each group of ranks that a configuration forms.
struct Placements {
  GroupPlacement tensor;    ///< Tensor-parallel groups.
  GroupPlacement pipeline;  ///< Pipeline-parallel groups.
  /// GPUs that hold the same parameters, experts' apart: the context-parallel ranks of all
  /// replicas. A bidirectional pipeline adds both copies of each, which lie a pipeline's distance
  /// apart. With dp_replicate above 1, only the GPUs that share one replica of the shards.
  GroupPlacement data;
  /// GPUs that hold the same parameters of experts. With dp_replicate above 1, only the GPUs that
  /// share one replica of the shards.
  GroupPlacement expert_data;
  GroupPlacement shard_replicas;  ///< GPUs that hold the same shards: dp_replicate of them.
};
/// Computes where the groups of `config` lie on `cluster`.
[[nodiscard]] Placements place_groups(const ParallelConfig& config, const ClusterSpec& cluster);

/// A scenario under one configuration, with its group placements and microbatch costs. Costs,
/// schedules, memory and plans are all worked out from it. Each derived value is computed when it
/// is first asked for, and kept. Not safe for concurrent use by several threads.
class PlannedJob {
 public:
  /// Keeps references to `scenario` and `config`, which must outlive the job. `known_costs`, unless
  /// null, points to the microbatch_costs() of the two and must outlive the job as well.
  PlannedJob(const Scenario& scenario, const ParallelConfig& config,
             const MicrobatchCosts* known_costs = nullptr)
      : scenario_(scenario), config_(config), known_costs_(known_costs) {}

  [[nodiscard]] const Scenario& scenario() const { return scenario_; }
  [[nodiscard]] const ParallelConfig& config() const { return config_; }
  [[nodiscard]] const TransformerConfig& model() const { return scenario_.job.model; }
  [[nodiscard]] const ClusterSpec& cluster() const { return scenario_.cluster; }
  [[nodiscard]] const StackSpec& stack() const { return scenario_.stack; }
  /// Returns the microbatches per replica and iteration: num_microbatches().
  [[nodiscard]] std::int64_t microbatches() const {
    return num_microbatches(scenario_.job.global_batch_size, config_);
  }
  /// Returns where the configuration's groups lie, computed on the first call.
  [[nodiscard]] const Placements& groups() const;
  /// Returns the costs of a microbatch: the known ones, or microbatch_costs() on the first call.
  [[nodiscard]] const MicrobatchCosts& costs() const;

 private:
  const Scenario& scenario_;
  const ParallelConfig& config_;
  const MicrobatchCosts* known_costs_;
  mutable std::optional<MicrobatchCosts> own_costs_;
  mutable std::optional<Placements> groups_;
};

}  // namespace ptdp
