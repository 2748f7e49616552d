// Tests of where ranks and their groups lie on nodes, counted rank by rank.
#include "cost_model/inputs/rank_grid.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>

namespace ptdp {
namespace {

using testing::ElementsAre;

using Coordinates = RankGrid::Coordinates;
using Ranks = std::vector<std::int64_t>;

constexpr std::array kDimensions = {Dimension::kTensor, Dimension::kContext, Dimension::kData,
                                    Dimension::kPipeline};

/// Returns every rank's coordinates by counting: tensor fastest, and replicas or stages slowest.
std::vector<Coordinates> counted_coordinates(const ParallelConfig& config) {
  std::vector<Coordinates> all;
  const bool has_stages_slowest = config.rank_order == RankOrder::kTpCpEpDpPp;
  const int slowest = has_stages_slowest ? config.pp : config.dp;
  const int second = has_stages_slowest ? config.dp : config.pp;
  for (int outer = 0; outer < slowest; ++outer) {
    for (int inner = 0; inner < second; ++inner) {
      const int pp = has_stages_slowest ? outer : inner;
      const int dp = has_stages_slowest ? inner : outer;
      for (int cp = 0; cp < config.cp; ++cp) {
        for (int tp = 0; tp < config.tp; ++tp) {
          all.push_back({tp, cp, dp, pp});
        }
      }
    }
  }
  return all;
}

/// Returns the ranks whose coordinates differ from those of `rank` only along `dimension`.
Ranks counted_group(const std::vector<Coordinates>& all, Dimension dimension, std::size_t rank) {
  const auto without = [dimension](Coordinates coordinates) {
    coordinates[static_cast<std::size_t>(dimension)] = 0;
    return coordinates;
  };
  Ranks members;
  for (std::size_t other = 0; other < all.size(); ++other) {
    if (without(all[other]) == without(all[rank])) {
      members.push_back(static_cast<std::int64_t>(other));
    }
  }
  return members;
}

/// Returns every grid with degrees from 1 to 3, and some larger ones.
std::vector<ParallelConfig> small_grids() {
  std::vector<ParallelConfig> grids = {{.tp = 8, .pp = 2, .dp = 5}, {.tp = 5, .dp = 7, .cp = 2}};
  for (int i = 0; i < 81; ++i) {
    grids.push_back({.tp = 1 + i % 3, .pp = 1 + i / 3 % 3, .dp = 1 + i / 9 % 3, .cp = 1 + i / 27});
    grids.push_back(grids.back());
    grids.back().rank_order = RankOrder::kTpCpEpPpDp;
  }
  return grids;
}

ClusterSpec nodes_of(int gpus) {
  ClusterSpec cluster;
  cluster.gpus_per_node = gpus;
  return cluster;
}

/// How the groups along a dimension lie on nodes, counted over all groups.
struct CountedPlacement {
  std::int64_t nodes = 0;  ///< Most nodes that a group touches.
  /// Fewest members on a node touched by a group that spans nodes.
  std::int64_t ranks_per_node = 0;
};
CountedPlacement counted_placement(const ParallelConfig& config, Dimension dimension,
                                   std::int64_t node) {
  const std::vector<Coordinates> all = counted_coordinates(config);
  CountedPlacement worst{.nodes = 1, .ranks_per_node = RankGrid(config).size(dimension)};
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank][static_cast<std::size_t>(dimension)] != 0) {
      continue;  // its group was counted from another rank
    }
    std::map<std::int64_t, std::int64_t> members;
    for (const std::int64_t member : counted_group(all, dimension, rank)) {
      ++members[member / node];
    }
    if (members.size() > 1) {
      worst.nodes = std::max(worst.nodes, static_cast<std::int64_t>(members.size()));
      for (const auto& [number, count] : members) {
        worst.ranks_per_node = std::min(worst.ranks_per_node, count);
      }
    }
  }
  return worst;
}

/// Calls `check` for small data-parallel groups until the first failure. The groups have up to 9
/// members, 1 to 9 ranks apart. There are up to 5 stages, and nodes of 1 to 9 GPUs.
template <class Check>
void for_every_small_group(const Check& check) {
  for (int stride = 1; stride <= 9; ++stride) {
    for (int size = 1; size <= 9; ++size) {
      for (int node = 1; node <= 9; ++node) {
        const ParallelConfig config = {.tp = stride, .pp = 1 + (size + node) % 5, .dp = size};
        const CountedPlacement expected = counted_placement(config, Dimension::kData, node);
        const GroupPlacement placement =
            place_group(RankGrid(config), Dimension::kData, nodes_of(node));
        SCOPED_TRACE(testing::Message() << to_string(config) << " on nodes of " << node << " GPUs");
        const bool is_divisible = stride >= node || node % stride == 0;
        check(placement, expected, is_divisible);
        if (testing::Test::HasFailure()) {
          return;
        }
      }
    }
  }
}

// Consecutive dp / dp_replicate replicas, with cp, share shards; the ranks at the same place of
// these hold the same. Counted rank by rank.
TEST(PlaceShardReplicas, CountsEveryRank) {
  for (const int tp : {1, 2, 4}) {
    for (const int cp : {1, 2}) {
      for (const int replicate : {1, 2, 4}) {
        for (const int pp : {1, 2}) {
          const ParallelConfig config = {
              .tp = tp, .pp = pp, .dp = 8, .cp = cp, .dp_replicate = replicate};
          const std::vector<Coordinates> all = counted_coordinates(config);
          const int in_shard_group = 8 / replicate;
          constexpr std::size_t node = 8;
          using Key = std::array<std::int64_t, 4>;
          std::map<Key, std::map<std::size_t, std::int64_t>> shards;
          std::map<Key, std::map<std::size_t, std::int64_t>> replicas;
          for (std::size_t rank = 0; rank < all.size(); ++rank) {
            const auto& [t, c, d, p] = all[rank];
            ++shards[{t, p, d / in_shard_group, 0}][rank / node];
            ++replicas[{t, p, c, d % in_shard_group}][rank / node];
          }
          const auto expect = [](const auto& groups, const GroupPlacement& placement,
                                 std::int64_t size) {
            std::int64_t nodes = 1;
            for (const auto& [key, members] : groups) {
              nodes = std::max(nodes, std::ssize(members));
            }
            EXPECT_EQ(placement.size, size);
            EXPECT_EQ(placement.nodes, nodes);
          };
          SCOPED_TRACE(to_string(config));
          const RankGrid grid(config);
          expect(shards, place_replicas(grid, nodes_of(8)), cp * in_shard_group);
          expect(replicas, place_shard_replicas(grid, nodes_of(8)), replicate);
        }
      }
    }
  }
}

std::vector<ParallelConfig> grids_with_stages_between() {
  std::vector<ParallelConfig> grids;
  for (const int tp : {1, 2, 3}) {
    for (const int cp : {1, 2, 3, 4}) {
      for (const int pp : {1, 2, 3, 5}) {
        for (const int dp : {1, 2, 3, 6, 25}) {
          for (const int replicas : {1, 2, 5}) {
            if (dp % replicas == 0) {
              grids.push_back({.tp = tp,
                               .pp = pp,
                               .dp = dp,
                               .cp = cp,
                               .dp_replicate = replicas,
                               .rank_order = RankOrder::kTpCpEpPpDp});
            }
          }
        }
      }
    }
  }
  return grids;
}

// The ranks that differ in cp and dp, counted rank by rank; of many replicas, whose places in nodes
// repeat, too.
TEST(PlaceReplicas, CountEveryRankWhereStagesLieBetweenThem) {
  for (const ParallelConfig& config : grids_with_stages_between()) {
    const std::vector<Coordinates> all = counted_coordinates(config);
    const int shards = config.dp / config.dp_replicate;
    for (const int node : {4, 6, 8}) {
      std::map<std::array<std::int64_t, 3>, std::map<std::size_t, std::int64_t>> groups;
      for (std::size_t rank = 0; rank < all.size(); ++rank) {
        const auto& [tp, cp, dp, pp] = all[rank];
        ++groups[{tp, pp, dp / shards}][rank / static_cast<std::size_t>(node)];
      }
      const std::int64_t size = std::int64_t{config.cp} * shards;
      CountedPlacement expected{.nodes = 1, .ranks_per_node = size};
      for (const auto& [coordinates, members] : groups) {
        expected.nodes = std::max(expected.nodes, std::ssize(members));
        for (const auto& [number, count] : members) {
          expected.ranks_per_node =
              std::min(expected.ranks_per_node, members.size() > 1 ? count : size);
        }
      }
      const GroupPlacement placement = place_replicas(RankGrid(config), nodes_of(node));
      EXPECT_EQ(placement.size, size);
      EXPECT_EQ(placement.nodes, expected.nodes) << to_string(config) << " on nodes of " << node;
      const std::int64_t between = std::int64_t{config.tp} * (config.cp == 1 ? config.pp : 1);
      if (between >= node || node % between == 0) {
        EXPECT_EQ(placement.ranks_per_node, expected.ranks_per_node)
            << to_string(config) << " on nodes of " << node;
      }
    }
  }
}

// The ranks that differ in cp and dp are those of a grid without cp whose dp is as large as both.
TEST(PlaceReplicas, CountsNodesAndMembersOfContextAndDataTogether) {
  for (const ParallelConfig& config : small_grids()) {
    if (config.rank_order != RankOrder::kTpCpEpDpPp) {
      continue;
    }
    ParallelConfig together = config;
    together.dp *= config.cp;
    together.cp = 1;
    for (int node = 1; node <= 8; ++node) {
      const CountedPlacement expected = counted_placement(together, Dimension::kData, node);
      const GroupPlacement placement = place_replicas(RankGrid(config), nodes_of(node));
      EXPECT_EQ(placement.size, std::int64_t{config.cp} * config.dp);
      EXPECT_EQ(placement.nodes, expected.nodes) << to_string(config) << " on nodes of " << node;
      if (config.tp >= node || node % config.tp == 0) {
        EXPECT_EQ(placement.ranks_per_node, expected.ranks_per_node) << to_string(config);
      }
    }
  }
}

// tp=2 cp=2 dp=2 on 8 GPUs: ranks 0, 2, 4 and 6 hold the same parameters, two on a node of four.
TEST(PlaceReplicas, AreATensorParallelGroupApart) {
  const GroupPlacement placement =
      place_replicas(RankGrid({.tp = 2, .dp = 2, .cp = 2}), nodes_of(4));
  EXPECT_EQ(placement.size, 4);
  EXPECT_EQ(placement.nodes, 2);
  EXPECT_EQ(placement.ranks_per_node, 2);
}

/// Calls `check` for every small grid along each of its dimensions.
template <class Check>
void for_every_dimension(const Check& check) {
  for (const ParallelConfig& config : small_grids()) {
    for (const Dimension dimension : kDimensions) {
      SCOPED_TRACE(testing::Message() << to_string(config) << " cp=" << config.cp << " dimension "
                                      << static_cast<int>(dimension));
      check(config, dimension);
    }
  }
}

TEST(RankGrid, CountsItsRanks) {
  for (const ParallelConfig& config : small_grids()) {
    EXPECT_EQ(RankGrid(config).world_size(), counted_coordinates(config).size())
        << to_string(config);
  }
}

TEST(RankGrid, CountsRanksBeyondAnInt) {
  EXPECT_EQ(RankGrid({.tp = 100'000, .pp = 100'000, .dp = 100'000}).world_size(),
            1'000'000'000'000'000);
}

TEST(RankGrid, OrdersRanksAsMegatronDoes) {
  for (const ParallelConfig& config : small_grids()) {
    const RankGrid grid(config);
    const std::vector<Coordinates> counted = counted_coordinates(config);
    for (std::size_t rank = 0; rank < counted.size(); ++rank) {
      EXPECT_EQ(grid.coordinates(static_cast<std::int64_t>(rank)), counted[rank])
          << to_string(config) << " cp=" << config.cp << " rank " << rank;
    }
  }
}

TEST(RankGrid, GivesEveryRankItsCoordinatesBack) {
  for (const ParallelConfig& config : small_grids()) {
    const RankGrid grid(config);
    for (std::int64_t rank = 0; rank < grid.world_size(); ++rank) {
      EXPECT_EQ(grid.rank(grid.coordinates(rank)), rank) << to_string(config);
    }
  }
}

TEST(RankGrid, GroupsTheRanksThatDifferInOneCoordinate) {
  for_every_dimension([](const ParallelConfig& config, Dimension dimension) {
    const std::vector<Coordinates> counted = counted_coordinates(config);
    for (std::size_t rank = 0; rank < counted.size(); ++rank) {
      EXPECT_EQ(RankGrid(config).group(dimension, static_cast<std::int64_t>(rank)),
                counted_group(counted, dimension, rank))
          << "rank " << rank;
    }
  });
}

TEST(RankGrid, PartitionsTheRanksIntoGroups) {
  for_every_dimension([](const ParallelConfig& config, Dimension dimension) {
    const RankGrid grid(config);
    std::set<Ranks> groups;
    for (std::int64_t rank = 0; rank < grid.world_size(); ++rank) {
      groups.insert(grid.group(dimension, rank));
    }
    std::multiset<std::int64_t> members;
    for (const Ranks& group : groups) {
      members.insert(group.begin(), group.end());
    }
    EXPECT_EQ(members.size(), grid.world_size());
    EXPECT_EQ(std::set<std::int64_t>(members.begin(), members.end()).size(), grid.world_size());
  });
}

TEST(RankGrid, PutsNeighboursOfAGroupAStrideApart) {
  for_every_dimension([](const ParallelConfig& config, Dimension dimension) {
    const RankGrid grid(config);
    const Ranks group = grid.group(dimension, 0);
    ASSERT_EQ(group.size(), grid.size(dimension));
    for (std::size_t i = 1; i < group.size(); ++i) {
      EXPECT_EQ(group[i] - group[i - 1], grid.stride(dimension));
    }
  });
}

// Megatron-LM, parallel_state.py, initialize_model_parallel: the groups of tp=2 pp=2 dp=2.
TEST(RankGrid, HasTheGroupsOfMegatron) {
  const RankGrid grid({.tp = 2, .pp = 2, .dp = 2});
  EXPECT_THAT(grid.group(Dimension::kTensor, 0), ElementsAre(0, 1));
  EXPECT_THAT(grid.group(Dimension::kTensor, 2), ElementsAre(2, 3));
  EXPECT_THAT(grid.group(Dimension::kTensor, 5), ElementsAre(4, 5));
  EXPECT_THAT(grid.group(Dimension::kTensor, 7), ElementsAre(6, 7));
  EXPECT_THAT(grid.group(Dimension::kData, 0), ElementsAre(0, 2));
  EXPECT_THAT(grid.group(Dimension::kData, 3), ElementsAre(1, 3));
  EXPECT_THAT(grid.group(Dimension::kData, 4), ElementsAre(4, 6));
  EXPECT_THAT(grid.group(Dimension::kData, 5), ElementsAre(5, 7));
  EXPECT_THAT(grid.group(Dimension::kPipeline, 0), ElementsAre(0, 4));
  EXPECT_THAT(grid.group(Dimension::kPipeline, 1), ElementsAre(1, 5));
  EXPECT_THAT(grid.group(Dimension::kPipeline, 6), ElementsAre(2, 6));
  EXPECT_THAT(grid.group(Dimension::kPipeline, 7), ElementsAre(3, 7));
  EXPECT_THAT(grid.group(Dimension::kContext, 5), ElementsAre(5));
}

// tp=2 cp=2 dp=2: context groups are two ranks apart, data groups four.
TEST(RankGrid, PutsContextBetweenTensorAndData) {
  const RankGrid grid({.tp = 2, .dp = 2, .cp = 2});
  EXPECT_THAT(grid.group(Dimension::kContext, 0), ElementsAre(0, 2));
  EXPECT_THAT(grid.group(Dimension::kContext, 7), ElementsAre(5, 7));
  EXPECT_THAT(grid.group(Dimension::kData, 3), ElementsAre(3, 7));
}

TEST(PlaceGroup, CountsTheMembers) {
  const RankGrid grid({.tp = 2, .pp = 3, .dp = 5, .cp = 7});
  EXPECT_EQ(place_group(grid, Dimension::kTensor, nodes_of(8)).size, 2);
  EXPECT_EQ(place_group(grid, Dimension::kPipeline, nodes_of(8)).size, 3);
  EXPECT_EQ(place_group(grid, Dimension::kData, nodes_of(8)).size, 5);
  EXPECT_EQ(place_group(grid, Dimension::kContext, nodes_of(8)).size, 7);
}

TEST(PlaceGroup, CountsTheNodesThatAGroupTouches) {
  for_every_small_group(
      [](const GroupPlacement& placement, const CountedPlacement& expected, bool /*is_divisible*/) {
        EXPECT_EQ(placement.nodes, expected.nodes);
        EXPECT_EQ(placement.is_within_node(), expected.nodes == 1);
      });
}

TEST(PlaceGroup, CountsTheMembersPerNodeWhereSizesDivide) {
  for_every_small_group(
      [](const GroupPlacement& placement, const CountedPlacement& expected, bool is_divisible) {
        if (is_divisible) {
          EXPECT_EQ(placement.ranks_per_node, expected.ranks_per_node);
        }
      });
}

TEST(PlaceGroup, NeverCountsMoreMembersPerNodeThanThereAre) {
  for_every_small_group(
      [](const GroupPlacement& placement, const CountedPlacement& expected, bool is_divisible) {
        if (!is_divisible) {
          EXPECT_LE(placement.ranks_per_node, expected.ranks_per_node);
          EXPECT_GE(placement.ranks_per_node, 1);
        }
      });
}

TEST(PlaceGroup, CountsAllMembersOfAGroupWithinANode) {
  for_every_small_group(
      [](const GroupPlacement& placement, const CountedPlacement& expected, bool /*is_divisible*/) {
        if (expected.nodes == 1) {
          EXPECT_EQ(placement.ranks_per_node, placement.size);
        }
      });
}

// By hand on nodes of 8: ranks 6, 7 | 8 of a group of three; ranks 0 to 7 | 8, 9 of one of ten;
// four groups of two and one of eight lie within theirs.
TEST(PlaceGroup, OfTensorParallelRanksIsTheWorst) {
  const auto place = [](int tp, int dp) {
    return place_group(RankGrid({.tp = tp, .dp = dp}), Dimension::kTensor, nodes_of(8));
  };
  EXPECT_EQ(place(3, 8).nodes, 2);
  EXPECT_EQ(place(3, 8).ranks_per_node, 1);
  EXPECT_EQ(place(3, 2).nodes, 1);  // ranks 0 to 5 only
  EXPECT_EQ(place(10, 4).nodes, 2);
  EXPECT_EQ(place(10, 4).ranks_per_node, 2);
  EXPECT_EQ(place(2, 4).nodes, 1);
  EXPECT_EQ(place(8, 4).nodes, 1);
  EXPECT_EQ(place(16, 4).ranks_per_node, 8);
}

// By hand on nodes of 8: replicas of a node each, so a group of d spans 8·(d−1) + 1 GPUs.
// Racks of 18 trays of four. 256 GPUs are 64 trays, of which 16 are the most that a rack can have
// of equally many: groups of 64 then lie within racks, where 72 of each would cut every other one.
// 144 and 72 fill racks; 296 = 74 trays are two a rack.
TEST(PlaceGroup, TakesEquallyManyTraysOfEachRack) {
  ClusterSpec cluster{.gpus_per_node = 72, .gpus_per_tray = 4};
  EXPECT_EQ(gpus_taken_per_node(cluster, 256), 64);
  EXPECT_EQ(gpus_taken_per_node(cluster, 144), 72);
  EXPECT_EQ(gpus_taken_per_node(cluster, 64), 72);
  EXPECT_EQ(gpus_taken_per_node(cluster, 296), 8);
  const RankGrid grid({.pp = 4, .dp = 64});
  EXPECT_TRUE(place_group(grid, Dimension::kData, cluster).is_within_node());
  cluster.gpus_per_tray = 0;
  EXPECT_EQ(gpus_taken_per_node(cluster, 256), 72);
  EXPECT_EQ(place_group(grid, Dimension::kData, cluster).nodes, 2);
}

TEST(PlaceGroup, FindsTheTierThatSpansTheGroup) {
  ClusterSpec cluster = nodes_of(8);
  cluster.network_tiers = {{.gpus = 16, .oversubscription = 1.5},
                           {.gpus = 64, .oversubscription = 2.0},
                           {.gpus = 4096, .oversubscription = 7.0}};
  const auto oversubscription = [&](const ParallelConfig& config) {
    return place_group(RankGrid(config), Dimension::kData, cluster).oversubscription;
  };
  EXPECT_EQ(oversubscription({.tp = 8, .dp = 2}), 1.5);   // 9 GPUs
  EXPECT_EQ(oversubscription({.tp = 8, .dp = 3}), 2.0);   // 17
  EXPECT_EQ(oversubscription({.tp = 1, .dp = 16}), 1.5);  // 16
  EXPECT_EQ(oversubscription({.tp = 1, .dp = 64}), 2.0);  // 64
  EXPECT_EQ(oversubscription({.tp = 1, .dp = 65}), 7.0);  // 65
}

// Two ranks meet in the lowest tier whose blocks of neighbors hold both; in the highest where none
// does.
TEST(OversubscriptionBetween, IsThatOfTheLowestTierThatHoldsBoth) {
  ClusterSpec cluster = nodes_of(4);
  EXPECT_EQ(oversubscription_between(0, 1000, cluster), 1.0);
  cluster.network_tiers = {{.gpus = 8, .oversubscription = 1.5},
                           {.gpus = 32, .oversubscription = 2.0},
                           {.gpus = 128, .oversubscription = 7.0}};
  EXPECT_EQ(oversubscription_between(0, 7, cluster), 1.5);
  EXPECT_EQ(oversubscription_between(15, 8, cluster), 1.5);
  EXPECT_EQ(oversubscription_between(7, 8, cluster), 2.0);
  EXPECT_EQ(oversubscription_between(32, 63, cluster), 2.0);
  EXPECT_EQ(oversubscription_between(31, 32, cluster), 7.0);
  EXPECT_EQ(oversubscription_between(0, 127, cluster), 7.0);
  EXPECT_EQ(oversubscription_between(0, 128, cluster), 7.0);
}

TEST(PlaceGroup, WithinANodeMeetsNoNetwork) {
  ClusterSpec cluster = nodes_of(8);
  cluster.network_tiers = {{.gpus = 16, .oversubscription = 2.0}};
  EXPECT_EQ(place_group(RankGrid({.tp = 8}), Dimension::kTensor, cluster).oversubscription, 1.0);
}

TEST(PlaceGroup, OfAFlatNetworkHasItsFullRate) {
  EXPECT_EQ(place_group(RankGrid({.dp = 512}), Dimension::kData, nodes_of(8)).oversubscription,
            1.0);
}

/// Returns how groups of experts lie on nodes, counted rank by rank. Within a stage rank = etp +
/// etp_size·(ep + ep_size·edp), with stages one after another. Another rank order puts stages
/// before edp.
CountedPlacement counted_expert_placement(const ParallelConfig& config, ExpertDimension dimension,
                                          std::int64_t node) {
  const std::int64_t stage = std::int64_t{1} * config.tp * config.cp * config.dp;
  std::map<std::array<std::int64_t, 4>, std::map<std::int64_t, std::int64_t>> groups;
  for (std::int64_t rank = 0; rank < stage * config.pp; ++rank) {
    std::int64_t etp = rank % config.etp;
    std::int64_t ep = rank / config.etp % config.ep;
    const bool has_stages_last = config.rank_order == RankOrder::kTpCpEpDpPp;
    const std::int64_t both = std::int64_t{1} * config.etp * config.ep;
    const std::int64_t pp = has_stages_last ? rank / stage : rank / both % config.pp;
    std::int64_t edp = has_stages_last ? rank % stage / both : rank / both / config.pp;
    const bool is_along_both = dimension == ExpertDimension::kTensorAndExpert;
    etp = is_along_both || dimension == ExpertDimension::kTensor ? 0 : etp;
    ep = is_along_both || dimension == ExpertDimension::kExpert ? 0 : ep;
    edp = dimension == ExpertDimension::kData ? 0 : edp;
    ++groups[{etp, ep, edp, pp}][rank / node];
  }
  CountedPlacement worst{.nodes = 1, .ranks_per_node = stage};
  for (const auto& [coordinates, members] : groups) {
    worst.nodes = std::max(worst.nodes, static_cast<std::int64_t>(members.size()));
    for (const auto& [number, count] : members) {
      worst.ranks_per_node = std::min(worst.ranks_per_node, count);
    }
  }
  return worst;
}

TEST(PlaceExpertGroup, CountsNodesAndMembersOfEveryDivision) {
  for (const int node : {2, 4, 8}) {
    for (const int etp : {1, 2, 4}) {
      for (const int ep : {1, 2, 4, 8}) {
        const ParallelConfig config = {.tp = 4, .pp = 3, .dp = 4, .cp = 2, .ep = ep, .etp = etp};
        for (const ExpertDimension dimension :
             {ExpertDimension::kTensor, ExpertDimension::kExpert, ExpertDimension::kTensorAndExpert,
              ExpertDimension::kData}) {
          SCOPED_TRACE(testing::Message() << to_string(config) << " on nodes of " << node
                                          << " along " << static_cast<int>(dimension));
          const CountedPlacement expected = counted_expert_placement(config, dimension, node);
          const GroupPlacement placement = place_expert_group(config, dimension, nodes_of(node));
          EXPECT_EQ(placement.nodes, expected.nodes);
          EXPECT_EQ(placement.ranks_per_node, expected.ranks_per_node);
        }
      }
    }
  }
}

TEST(PlaceExpertGroup, CountsWhereStagesComeBeforeReplicas) {
  for (const int node : {2, 4, 8}) {
    for (const int ep : {1, 2, 8}) {
      const ParallelConfig config = {.tp = 4,
                                     .pp = 3,
                                     .dp = 4,
                                     .cp = 2,
                                     .ep = ep,
                                     .etp = 8 / ep,
                                     .rank_order = RankOrder::kTpCpEpPpDp};
      ASSERT_TRUE(places_experts(config));
      for (const ExpertDimension dimension :
           {ExpertDimension::kTensor, ExpertDimension::kExpert, ExpertDimension::kData}) {
        const CountedPlacement expected = counted_expert_placement(config, dimension, node);
        const GroupPlacement placement = place_expert_group(config, dimension, nodes_of(node));
        EXPECT_EQ(placement.nodes, expected.nodes) << to_string(config) << " nodes of " << node;
        EXPECT_EQ(placement.ranks_per_node, expected.ranks_per_node) << to_string(config);
      }
    }
  }
}

// Megatron-Core, expert_decoder_rank_generator, by hand for tp=4 dp=4 with ep=4 and etp=2 on nodes
// of 8: ranks 0 and 1 share an expert; 0, 2, 4, 6 the experts; 0 and 8 hold the same.
TEST(PlaceExpertGroup, IsThatOfMegatron) {
  const ParallelConfig config = {.tp = 4, .dp = 4, .ep = 4, .etp = 2};
  EXPECT_EQ(expert_data_size(config), 2);
  const auto place = [&](ExpertDimension dimension) {
    return place_expert_group(config, dimension, nodes_of(8));
  };
  EXPECT_EQ(place(ExpertDimension::kTensor).size, 2);
  EXPECT_EQ(place(ExpertDimension::kExpert).size, 4);
  EXPECT_TRUE(place(ExpertDimension::kExpert).is_within_node());
  EXPECT_EQ(place(ExpertDimension::kTensorAndExpert).size, 8);
  EXPECT_TRUE(place(ExpertDimension::kTensorAndExpert).is_within_node());
  EXPECT_EQ(place(ExpertDimension::kData).size, 2);
  EXPECT_EQ(place(ExpertDimension::kData).nodes, 2);
}

// DeepSeek-V3 (arXiv:2412.19437 3.1): 16 stages, 64 GPUs share the experts, 8 nodes of each stage.
TEST(PlaceExpertGroup, OfDeepSeekV3SpansEightNodes) {
  const GroupPlacement placement =
      place_expert_group({.pp = 16, .dp = 128, .ep = 64}, ExpertDimension::kExpert, nodes_of(8));
  EXPECT_EQ(placement.size, 64);
  EXPECT_EQ(placement.nodes, 8);
  EXPECT_EQ(placement.ranks_per_node, 8);
}

}  // namespace
}  // namespace ptdp
