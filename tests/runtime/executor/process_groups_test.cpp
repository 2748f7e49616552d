// Compares process groups with the rule that ranks are laid out tp fastest, then dp, then pp. The
// rule is applied to every rank by itself.
#include "runtime/executor/process_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "cost_model/error.h"
#include "runtime/transport/solo_communicator.h"
#include "tests/runtime/transport/threads.h"

namespace ptdp {
namespace {

using Ranks = std::vector<int>;

struct Shape {
  int tp = 1;
  int pp = 1;
  int dp = 1;
  int vpp = 1;
  StagePlacement placement = StagePlacement::kLooped;

  [[nodiscard]] int world() const { return tp * pp * dp; }
  [[nodiscard]] int tensor_of(int rank) const { return rank % tp; }
  [[nodiscard]] int data_of(int rank) const { return rank / tp % dp; }
  [[nodiscard]] int pipeline_of(int rank) const { return rank / tp / dp; }
};

std::string described(const Shape& shape) {
  return "tp=" + std::to_string(shape.tp) + " pp=" + std::to_string(shape.pp) +
         " dp=" + std::to_string(shape.dp) + " vpp=" + std::to_string(shape.vpp) + " placement " +
         std::to_string(static_cast<int>(shape.placement));
}

// Returns the ranks of the world for which `belongs` holds, ascending.
Ranks those(const Shape& shape, const std::function<bool(int)>& belongs) {
  Ranks ranks;
  for (int rank = 0; rank < shape.world(); ++rank) {
    if (belongs(rank)) {
      ranks.push_back(rank);
    }
  }
  return ranks;
}

// Whether pipeline rank r holds virtual stage s.
bool holds(const Shape& shape, int r, int s) {
  switch (shape.placement) {
    case StagePlacement::kLooped:
      return s % shape.pp == r;
    case StagePlacement::kV:
      return s == r || s == 2 * shape.pp - 1 - r;
    case StagePlacement::kBidirectional:
      return s == r || s == shape.pp - 1 - r;
  }
  return false;
}

// Returns the members of a group in its order: every member tells its rank in the world.
Ranks members(const std::unique_ptr<Communicator>& group, int rank) {
  if (group == nullptr) {
    return {};
  }
  std::vector<std::int32_t> ranks(static_cast<std::size_t>(group->size()));
  ranks[static_cast<std::size_t>(group->rank())] = rank;
  group->all_gather(buffer_of(ranks));
  return {ranks.begin(), ranks.end()};
}

void expect_groups(const Shape& shape, Communicator& world) {
  const ParallelConfig config{.tp = shape.tp, .pp = shape.pp, .dp = shape.dp, .vpp = shape.vpp};
  const Schedule schedule{
      .pp = shape.pp, .vpp = shape.vpp, .num_microbatches = 4, .placement = shape.placement};
  const ProcessGroups groups = make_process_groups(world, config, schedule);

  const int rank = world.rank();
  const int tensor = shape.tensor_of(rank);
  const int data = shape.data_of(rank);
  const int pipeline = shape.pipeline_of(rank);
  EXPECT_EQ(groups.tensor_rank, tensor);
  EXPECT_EQ(groups.data_rank, data);
  EXPECT_EQ(groups.pipeline_rank, pipeline);

  EXPECT_EQ(members(groups.tensor, rank), those(shape, [&](int r) {
              return shape.data_of(r) == data && shape.pipeline_of(r) == pipeline;
            }));
  const Ranks pipeline_ranks =
      those(shape, [&](int r) { return shape.data_of(r) == data && shape.tensor_of(r) == tensor; });
  EXPECT_EQ(members(groups.pipeline_forward, rank), pipeline_ranks);
  EXPECT_EQ(members(groups.pipeline_backward, rank), pipeline_ranks);
  EXPECT_EQ(members(groups.model, rank),
            those(shape, [&](int r) { return shape.data_of(r) == data; }));
  EXPECT_EQ(members(groups.world, rank), those(shape, [](int) { return true; }));

  ASSERT_EQ(groups.stage_data.size(), static_cast<std::size_t>(shape.pp * shape.vpp));
  for (int stage = 0; stage < shape.pp * shape.vpp; ++stage) {
    const Ranks holders = those(shape, [&](int r) {
      return shape.tensor_of(r) == tensor && holds(shape, shape.pipeline_of(r), stage);
    });
    EXPECT_EQ(members(groups.stage_data[static_cast<std::size_t>(stage)], rank),
              holds(shape, pipeline, stage) ? holders : Ranks());
  }

  const bool is_end = shape.pp > 1 && (pipeline == 0 || pipeline == shape.pp - 1);
  EXPECT_EQ(members(groups.tied, rank),
            is_end ? Ranks({pipeline_ranks.front(), pipeline_ranks.back()}) : Ranks());
}

void expect_groups(const Shape& shape) {
  SCOPED_TRACE(described(shape));
  ThreadWorld world(shape.world(), CollectiveAlgorithm::kOrdered);
  on_all_ranks(world, [&](Communicator& all) { expect_groups(shape, all); });
}

TEST(ProcessGroups, FollowTheLayoutOfRanks) {
  std::mt19937 random(1);
  const auto up_to = [&](int limit) { return 1 + static_cast<int>(random() % limit); };
  for (int i = 0; i < 40; ++i) {
    expect_groups({.tp = up_to(4), .pp = up_to(4), .dp = up_to(3), .vpp = up_to(3)});
  }
}

TEST(ProcessGroups, HoldBothEndsOfAVOnItsFirstRank) {
  for (const int pp : {1, 2, 3, 4}) {
    expect_groups({.tp = 2, .pp = pp, .dp = 2, .vpp = 2, .placement = StagePlacement::kV});
  }
}

TEST(ProcessGroups, JoinTheTwoHoldersOfAStageOfDualPipe) {
  for (const int pp : {2, 4, 6}) {
    for (const int dp : {1, 2}) {
      expect_groups({.tp = 2, .pp = pp, .dp = dp, .placement = StagePlacement::kBidirectional});
    }
  }
}

// By hand: tp=2 dp=2 pp=2 puts rank 5 = 1 + 2·(0 + 2·1) at tensor 1, data 0, pipeline 1.
TEST(ProcessGroups, MatchTheHandComputedPlaceOfARank) {
  SoloCommunicator world(5, 8);
  const Schedule schedule{.pp = 2, .num_microbatches = 2};
  const ProcessGroups groups = make_process_groups(world, {.tp = 2, .pp = 2, .dp = 2}, schedule);
  EXPECT_EQ(groups.tensor_rank, 1);
  EXPECT_EQ(groups.data_rank, 0);
  EXPECT_EQ(groups.pipeline_rank, 1);
  EXPECT_EQ(groups.model->size(), 4);
  EXPECT_EQ(groups.model->rank(), 3);  // Ranks 0, 1, 4, 5.
  EXPECT_EQ(groups.tied->rank(), 1);
  EXPECT_EQ(groups.stage_data[0], nullptr);
  EXPECT_EQ(groups.stage_data[1]->size(), 2);
}

TEST(ProcessGroups, JoinReplicasOnceMoreWhereUnitsAreSharded) {
  SoloCommunicator world(5, 6);
  const auto groups = [&](const ParallelConfig& config) {
    return make_process_groups(world, config, {.pp = config.pp, .num_microbatches = 2});
  };
  for (const int zero : {2, 3}) {
    const ProcessGroups sharded = groups({.tp = 2, .dp = 3, .zero_stage = zero});
    ASSERT_NE(sharded.shards, nullptr);
    EXPECT_EQ(sharded.shards->size(), 3);
    EXPECT_EQ(sharded.shards->rank(), 2);
    EXPECT_EQ(groups({.pp = 2, .dp = 3, .zero_stage = zero}).shards, nullptr);
    EXPECT_EQ(groups({.tp = 6, .zero_stage = zero}).shards, nullptr);
  }
  EXPECT_EQ(groups({.tp = 2, .dp = 3, .zero_stage = 1}).shards, nullptr);
}

// Nothing is divided where there is one replica: a rank of it may hold any number of stages.
TEST(ProcessGroups, HoldSeveralStagesWhereThereAreNoReplicasToShardAmong) {
  SoloCommunicator world(1, 2);
  for (const int zero : {2, 3}) {
    const ProcessGroups groups = make_process_groups(world, {.tp = 2, .vpp = 2, .zero_stage = zero},
                                                     {.vpp = 2, .num_microbatches = 2});
    EXPECT_EQ(groups.shards, nullptr);
    ASSERT_EQ(groups.stage_data.size(), 2U);
    for (const std::unique_ptr<Communicator>& of_rank : groups.stage_data) {
      ASSERT_NE(of_rank, nullptr);
      EXPECT_EQ(of_rank->size(), 1);
    }
  }
}

std::string fault_of(int world_size, const ParallelConfig& config) {
  SoloCommunicator world(0, world_size);
  try {
    (void)make_process_groups(world, config, {.pp = config.pp, .vpp = config.vpp});
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::kBadInput);
    return error.what();
  }
  return "nothing thrown";
}

TEST(ProcessGroups, RefuseWhatTheyCannotDivide) {
  EXPECT_EQ(fault_of(4, {.tp = 2, .pp = 2, .dp = 2}), "tp=2 pp=2 dp=2: expected 8 ranks, got 4");
  EXPECT_EQ(
      fault_of(8, {.tp = 2, .dp = 2, .cp = 2}),
      "cp=2 ep=1 etp=1: expected 1 of all: sequences and experts are not divided at run time");
  EXPECT_EQ(
      fault_of(8, {.tp = 2, .dp = 4, .ep = 4}),
      "cp=1 ep=4 etp=1: expected 1 of all: sequences and experts are not divided at run time");
  EXPECT_EQ(fault_of(2, {.dp = 2, .vpp = 2, .zero_stage = 3}),
            "zero_stage=3: expected one stage on the rank, got 2");
}

}  // namespace
}  // namespace ptdp
