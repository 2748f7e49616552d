// A rank's place in the job and its communicators: tensor, pipeline, data, model.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/schedule/schedule.h"
#include "runtime/transport/communicator.h"

namespace ptdp {

/// The tags by which make_process_groups tells groups with the same members apart: that of stage s
/// is kStageDataTag + s.
enum GroupTag : int {
  kTensorTag,
  kForwardTag,
  kBackwardTag,
  kModelTag,
  kWorldTag,
  kTiedTag,
  kShardTag,
  kStageDataTag
};

/// Groups of the world that a rank belongs to. Ranks are laid out by RankGrid (tp fastest, then dp,
/// then pp).
struct ProcessGroups {
  int tensor_rank = 0;
  int data_rank = 0;
  int pipeline_rank = 0;

  std::unique_ptr<Communicator> tensor;
  std::unique_ptr<Communicator> pipeline_forward;   ///< Ranks of a pipeline, in order: activations,
  std::unique_ptr<Communicator> pipeline_backward;  ///< and gradients.
  /// Those that hold the parameters of a virtual stage, by stage number; null for stages that are
  /// not here. The replicas, and where two ranks of a pipeline hold a stage (DualPipe), both of
  /// each: the lower rank's replicas, then the higher's.
  std::vector<std::unique_ptr<Communicator>> stage_data;
  /// Where units are sharded, their only stage's replicas again, for calls within passes; else
  /// null.
  std::unique_ptr<Communicator> shards;
  std::unique_ptr<Communicator> model;  ///< All ranks of this replica, in order.
  std::unique_ptr<Communicator> world;  ///< Of all ranks, apart from the one given.
  /// The first and the last rank of the pipeline; null on the others and where there is one.
  std::unique_ptr<Communicator> tied;
};

/// Every rank of `world` calls it with the same configuration; world.size() must be
/// config.world_size(). cp and ep must be 1.
[[nodiscard]] ProcessGroups make_process_groups(Communicator& world, const ParallelConfig& config,
                                                const Schedule& schedule);

}  // namespace ptdp
