// The communicators of a rank: tensor, pipeline, data and model groups.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "cost_model/inputs/parallel_config.h"
#include "cost_model/schedule/schedule.h"
#include "runtime/transport/communicator.h"
#include "runtime/transport/group_tag.h"

namespace ptdp {

/// The groups of the world that a rank belongs to. RankGrid lays ranks out: tp fastest, then dp,
/// then pp.
struct ProcessGroups {
  int tensor_rank = 0;
  int data_rank = 0;
  int pipeline_rank = 0;

  /// Ranks that share the layers of this one by tensor parallelism.
  std::unique_ptr<Communicator> tensor;
  /// Ranks of a pipeline in order, for activations.
  std::unique_ptr<Communicator> pipeline_forward;
  /// Ranks of a pipeline in order, for gradients of activations.
  std::unique_ptr<Communicator> pipeline_backward;
  /// Groups that hold the parameters of a virtual stage, by stage number; null for stages that are
  /// not on this rank. A group consists of the stage's replicas. When two ranks of a pipeline hold
  /// a stage (DualPipe), it has the replicas of both: first the lower rank's, then the higher's.
  std::vector<std::unique_ptr<Communicator>> stage_data;
  /// A second group of the replicas of the rank's only stage, for calls within passes. Null unless
  /// units are sharded.
  std::unique_ptr<Communicator> shards;
  std::unique_ptr<Communicator> model;  ///< All ranks of this replica, in order.
  /// All ranks of the world, apart from the given communicator.
  std::unique_ptr<Communicator> world;
  /// The first and the last rank of the pipeline, which share a tied embedding. Null on other ranks
  /// and when the pipeline has one rank.
  std::unique_ptr<Communicator> tied;
};

/// Makes the groups of the calling rank. Every rank of `world` calls it with the same
/// configuration. Throws Error unless world.size() is config.world_size() and cp, ep and etp are 1.
/// It throws also for sharded gradients with several stages.
[[nodiscard]] ProcessGroups make_process_groups(Communicator& world, const ParallelConfig& config,
                                                const Schedule& schedule);

}  // namespace ptdp
