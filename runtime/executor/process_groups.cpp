#include "runtime/executor/process_groups.h"

#include <algorithm>
#include <cassert>
#include <numeric>
#include <span>
#include <string>

#include "cost_model/error.h"
#include "cost_model/inputs/parallel_config.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/iteration/sharding.h"

namespace ptdp {
namespace {

/// Throws Error when the runtime cannot divide the model so, or the world has another size.
void check(const Communicator& world, const ParallelConfig& config, const Schedule& schedule) {
  if (config.cp != 1 || config.ep != 1 || config.etp != 1) {
    throw Error("cp=" + std::to_string(config.cp) + " ep=" + std::to_string(config.ep) +
                " etp=" + std::to_string(config.etp) +
                ": expected 1 of all: sequences and experts are not divided at run time");
  }
  if (shards_gradients(config) && config.dp > 1 && num_stages(schedule) > 1) {
    throw Error("zero_stage=" + std::to_string(config.zero_stage) +
                ": expected one stage on the rank, got " + std::to_string(num_stages(schedule)));
  }
  if (world.size() != config.world_size()) {
    throw Error("tp=" + std::to_string(config.tp) + " pp=" + std::to_string(config.pp) + " dp=" +
                std::to_string(config.dp) + ": expected " + std::to_string(config.world_size()) +
                " ranks, got " + std::to_string(world.size()));
  }
}

/// Makes this rank's groups of the world.
class GroupMaker {
 public:
  GroupMaker(Communicator& world, const ParallelConfig& config)
      : world_(&world), grid_(config), place_(grid_.coordinates(world.rank())) {}

  [[nodiscard]] int coordinate(Dimension dimension) const {
    return static_cast<int>(place_[static_cast<std::size_t>(dimension)]);
  }
  /// Returns the group of the ranks that differ from this one in `dimension` alone.
  [[nodiscard]] std::unique_ptr<Communicator> along(Dimension dimension, int tag) const {
    return of(ranks_along(dimension, world_->rank()), tag);
  }
  /// Returns the group of the given ranks.
  [[nodiscard]] std::unique_ptr<Communicator> of(const std::vector<int>& ranks, int tag) const {
    return world_->group(ranks, tag);
  }
  /// Returns a group of this rank's pipeline that sends messages along `links`.
  [[nodiscard]] std::unique_ptr<Communicator> for_messages(
      int tag, std::span<const MessageLink> links) const {
    return world_->message_group(ranks_along(Dimension::kPipeline, world_->rank()), tag, links);
  }
  /// Returns the world ranks that differ from `rank` in `dimension` alone, in order.
  [[nodiscard]] std::vector<int> ranks_along(Dimension dimension, int rank) const {
    const std::vector<std::int64_t> ranks = grid_.group(dimension, rank);
    return {ranks.begin(), ranks.end()};
  }
  /// Returns the world rank that differs from this one only in its pipeline rank.
  [[nodiscard]] int at_pipeline_rank(int pipeline_rank) const {
    RankGrid::Coordinates place = place_;
    place[static_cast<std::size_t>(Dimension::kPipeline)] = pipeline_rank;
    return static_cast<int>(grid_.rank(place));
  }
  /// Returns the world ranks of this replica, ascending.
  [[nodiscard]] std::vector<int> replica() const {
    std::vector<int> ranks;
    for (int rank = 0; rank < world_->size(); ++rank) {
      const auto dimension = static_cast<std::size_t>(Dimension::kData);
      if (grid_.coordinates(rank)[dimension] == place_[dimension]) {
        ranks.push_back(rank);
      }
    }
    return ranks;
  }

 private:
  Communicator* world_;
  RankGrid grid_;
  RankGrid::Coordinates place_;
};

/// Returns the pipeline ranks that hold a virtual stage, ascending: one, or two when pipelines run
/// in both directions.
std::vector<int> holders(const Schedule& schedule, int stage) {
  std::vector<int> ranks = {rank_of(schedule, stage, 0),
                            rank_of(schedule, stage, schedule.num_microbatches - 1)};
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

/// Returns the pairs of pipeline ranks that send to the next virtual stage, each once. When
/// pipelines run in both directions, the first and the last microbatch of a step go different ways.
std::vector<MessageLink> forward_links(const Schedule& schedule) {
  std::vector<MessageLink> links;
  for (int stage = 0; stage + 1 < num_stages(schedule); ++stage) {
    for (const int microbatch : {0, schedule.num_microbatches - 1}) {
      const MessageLink link{.from = rank_of(schedule, stage, microbatch),
                             .to = rank_of(schedule, stage + 1, microbatch)};
      if (link.from != link.to && std::find(links.begin(), links.end(), link) == links.end()) {
        links.push_back(link);
      }
    }
  }
  return links;
}

/// Returns the links with sender and receiver exchanged.
std::vector<MessageLink> reversed(const std::vector<MessageLink>& links) {
  std::vector<MessageLink> result;
  result.reserve(links.size());
  for (const MessageLink& link : links) {
    result.push_back({.from = link.to, .to = link.from});
  }
  return result;
}

}  // namespace

ProcessGroups make_process_groups(Communicator& world, const ParallelConfig& config,
                                  const Schedule& schedule) {
  check(world, config, schedule);
  assert(schedule.pp == config.pp);
  const GroupMaker groups(world, config);

  ProcessGroups result;
  result.tensor_rank = groups.coordinate(Dimension::kTensor);
  result.data_rank = groups.coordinate(Dimension::kData);
  result.pipeline_rank = groups.coordinate(Dimension::kPipeline);
  result.tensor = groups.along(Dimension::kTensor, kTensorTag);
  const std::vector<MessageLink> links = forward_links(schedule);
  result.pipeline_forward = groups.for_messages(kForwardTag, links);
  result.pipeline_backward = groups.for_messages(kBackwardTag, reversed(links));
  result.model = groups.of(groups.replica(), kModelTag);

  std::vector<int> all(static_cast<std::size_t>(world.size()));
  std::iota(all.begin(), all.end(), 0);
  result.world = groups.of(all, kWorldTag);

  for (int stage = 0; stage < num_stages(schedule); ++stage) {
    const std::vector<int> ranks = holders(schedule, stage);
    result.stage_data.emplace_back();
    if (std::find(ranks.begin(), ranks.end(), result.pipeline_rank) == ranks.end()) {
      world.skip_group();
      continue;
    }
    std::vector<int> members;
    for (const int holder : ranks) {
      const std::vector<int> replicas =
          groups.ranks_along(Dimension::kData, groups.at_pipeline_rank(holder));
      members.insert(members.end(), replicas.begin(), replicas.end());
    }
    result.stage_data.back() = groups.of(members, kStageDataTag + stage);
  }

  if (shards_gradients(config) && config.dp > 1) {
    result.shards = groups.along(Dimension::kData, kShardTag);
  }
  if (config.pp > 1) {
    if (result.pipeline_rank == 0 || result.pipeline_rank == config.pp - 1) {
      result.tied =
          groups.of({groups.at_pipeline_rank(0), groups.at_pipeline_rank(config.pp - 1)}, kTiedTag);
    } else {
      world.skip_group();
    }
  }
  return result;
}

}  // namespace ptdp
