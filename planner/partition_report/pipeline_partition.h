// A pipeline cut into stages: which layers each holds, how long it takes, how full it is, and what
// the cut gains over an equal number of layers per stage.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/scenario.h"
#include "cost_model/partition/partition.h"
#include "planner/partition_report/layer_list.h"

namespace ptdp {

/// A virtual stage of a partition.
struct PartitionStage {
  int rank = 0;        ///< Pipeline rank that holds the virtual stage, 0 … pp−1.
  int num_layers = 0;  ///< Number of layers; embedding and logits do not count.
  std::string layers;  ///< Names of what the stage holds: "embedding, 3 x layer".
  Seconds time;        ///< Time per microbatch, forward and backward.
};

/// The split with an equal number of layers per virtual stage, the first l mod (pp·vpp) one more.
/// Megatron-LM's flags give it where the layers divide; elsewhere it is the usual way out.
struct EvenPartition {
  std::vector<int> layers_per_stage;  ///< Layers of each virtual stage, embedding and logits aside.
  std::vector<LayerCost> ranks;       ///< Time per microbatch and memory of each pipeline rank.
};

/// A pipeline cut into virtual stages, with the even split to compare it with.
struct PipelinePartition {
  std::string name;                           ///< Name of the model or the list.
  std::optional<ParallelConfig> config = {};  ///< What layers are costed for; none for a list.
  PartitionRequest request;
  std::int64_t num_microbatches = 1;
  std::vector<PartitionStage> stages;  ///< The virtual stages, in model order.
  std::vector<LayerCost> ranks;        ///< Time per microbatch and memory of each pipeline rank.
  bool has_memory = false;             ///< Whether memory is known.
  std::optional<EvenPartition> even;   ///< The even split; none with fewer layers than stages.

  /// Returns the layers of each virtual stage, as ParallelConfig takes them.
  [[nodiscard]] std::vector<int> layers_per_stage() const;
};

/// Returns the pipeline rank that takes longest per microbatch; the first of equal ones.
[[nodiscard]] int slowest_rank(const std::vector<LayerCost>& ranks);

/// Returns the time of m microbatches under 1F1B or interleaved 1F1B:
///
///   m·slowest rank + (p−1)/v·mean rank
///
/// Messages, the reduction of gradients and the optimizer are left out: they hardly depend on the
/// partition.
[[nodiscard]] Seconds pipeline_time(const PipelinePartition& partition,
                                    const std::vector<LayerCost>& ranks);

/// Cuts a list of layers into stages. Throws Error(kNothingFits) when there are fewer layers than
/// stages, or when no partition keeps to the memory; the error says what is missing.
[[nodiscard]] PipelinePartition partition_list(const LayerList& list,
                                               const PartitionRequest& request,
                                               std::int64_t num_microbatches);

/// Describes the partition of a list that has `sizes` layers in each virtual stage, embedding and
/// logits counted.
[[nodiscard]] PipelinePartition described_partition(const LayerList& list,
                                                    const PartitionRequest& request,
                                                    const std::vector<int>& sizes,
                                                    std::int64_t num_microbatches);

/// Cuts a transformer into stages, its layers costed for the configuration. Times hold the stack's
/// overhead per microbatch and chunk. `memory` is what each GPU may hold. The number of
/// microbatches is the scenario's batch over dp·micro_batch_size. Throws Error as partition_list().
[[nodiscard]] PipelinePartition partition_model(const Scenario& scenario,
                                                const ParallelConfig& config, Bytes memory);

}  // namespace ptdp
