// A pipeline cut into stages: which layers, how long, how full, and what that gains over cutting by
// number.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/partition/partition.h"
#include "planner/partition_report/layer_list.h"

namespace ptdp {

/// A virtual stage.
struct PartitionStage {
  int rank = 0;
  int num_layers = 0;  ///< Embedding and logits are none.
  std::string layers;  ///< "embedding, 3 x layer".
  Seconds time;        ///< Per microbatch.
};

/// The same number of layers for each virtual stage, the first l mod (pp·vpp) one more: what
/// Megatron-LM's flags give where the layers divide, and where they do not the usual way out.
struct EvenSplit {
  std::vector<int> layers_per_stage;
  std::vector<LayerCost> ranks;
};

struct PipelinePartition {
  std::string name;  ///< Of the model or the list.
  PartitionRequest request;
  std::int64_t num_microbatches = 1;
  std::vector<PartitionStage> stages;  ///< In model order.
  std::vector<LayerCost> ranks;        ///< What each rank takes per microbatch, and holds.
  bool has_memory = false;             ///< Whether memory is known.
  std::optional<EvenSplit> even;       ///< Nothing where there are fewer layers than stages.

  /// What ParallelConfig takes.
  [[nodiscard]] std::vector<int> layers_per_stage() const;
};

/// The rank that takes longest; the first of several.
[[nodiscard]] int slowest_rank(const std::vector<LayerCost>& ranks);

/// m·slowest rank + (p−1)/v·mean rank: 1F1B and interleaved 1F1B without messages, the gradients'
/// reduction and the optimizer, which hardly depend on the partition.
[[nodiscard]] Seconds pipeline_time(const PipelinePartition& partition,
                                    const std::vector<LayerCost>& ranks);

/// Cuts a list. Throws Error(kNothingFits) where there are fewer layers than stages, or where no
/// partition keeps to the memory, with what is missing.
[[nodiscard]] PipelinePartition partition_list(const LayerList& list,
                                               const PartitionRequest& request,
                                               std::int64_t num_microbatches);

/// Cuts a transformer, its layers costed for the configuration; times hold the stack's overhead per
/// microbatch and chunk. `memory` is that of a GPU. The number of microbatches is the scenario's
/// batch over dp·micro_batch_size. Throws Error like partition_list.
[[nodiscard]] PipelinePartition partition_model(const Scenario& scenario,
                                                const ParallelConfig& config, Bytes memory);

}  // namespace ptdp
