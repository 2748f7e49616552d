// Tests of how tokens travel to experts: nodes visited, times, volumes.
#include "cost_model/network/expert_dispatch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <vector>

#include "cost_model/network/collectives.h"

namespace ptdp {
namespace {

/// Returns how many distinct nodes a token visits, by the definition: it chooses groups by their
/// best expert first, then experts within them. `preferred` lists the experts in the token's order.
int visited_nodes(const ExpertRouting& routing, int nodes, const std::vector<int>& preferred) {
  const auto group_of = [&](int expert) {
    return expert / (routing.num_experts / routing.num_groups);
  };
  // Sets of numbers below 8 as bits, for there are 40,320 orders of 8 experts.
  unsigned groups = 0;
  for (const int expert : preferred) {
    if (std::popcount(groups) < routing.group_topk) {
      groups |= 1U << static_cast<unsigned>(group_of(expert));
    }
  }
  unsigned visited = 0;
  int chosen = 0;
  for (const int expert : preferred) {
    if (chosen < routing.topk && (groups >> static_cast<unsigned>(group_of(expert)) & 1U) != 0) {
      visited |= 1U << static_cast<unsigned>(expert / (routing.num_experts / nodes));
      ++chosen;
    }
  }
  return std::popcount(visited);
}

/// Returns the mean number of visited nodes over every order of the experts.
double counted_nodes(const ExpertRouting& routing, int nodes) {
  std::vector<int> preferred(static_cast<std::size_t>(routing.num_experts));
  std::iota(preferred.begin(), preferred.end(), 0);
  double sum = 0.0;
  double orders = 0.0;
  do {
    sum += visited_nodes(routing, nodes, preferred);
    orders += 1.0;
  } while (std::next_permutation(preferred.begin(), preferred.end()));
  return sum / orders;
}

/// Compares expected_nodes() with the count for every topk and group_topk that `num_experts` in
/// `num_groups` allow.
void expect_counted_nodes(int num_experts, int num_groups, int nodes) {
  const int per_group = num_experts / num_groups;
  for (int group_topk = 1; group_topk <= num_groups; ++group_topk) {
    for (int topk = 1; topk <= group_topk * per_group; ++topk) {
      const ExpertRouting routing = {.num_experts = num_experts,
                                     .topk = topk,
                                     .num_groups = num_groups,
                                     .group_topk = group_topk};
      EXPECT_NEAR(expected_nodes(routing, nodes), counted_nodes(routing, nodes), 1e-9)
          << num_experts << " experts, " << topk << " of " << group_topk << " of " << num_groups
          << " groups, on " << nodes << " nodes";
    }
  }
}

TEST(ExpectedNodes, AreThoseCountedOverEveryOrderOfTheExperts) {
  for (const int num_experts : {4, 6}) {
    for (int num_groups = 1; num_groups <= num_experts; ++num_groups) {
      for (int nodes = 1; nodes <= num_experts; ++nodes) {
        const bool divides = num_experts % num_groups == 0 && num_experts % nodes == 0 &&
                             (num_groups % nodes == 0 || nodes % num_groups == 0);
        if (divides) {
          expect_counted_nodes(num_experts, num_groups, nodes);
        }
      }
    }
  }
  expect_counted_nodes(8, 4, 2);
  expect_counted_nodes(8, 2, 4);
}

// By hand: 8 experts of 256 miss a node of 32 with probability C(224, 8)/C(256, 8) = 0.337; and
// two nodes of 128 with C(128, 8)/C(256, 8) = 0.003490.
TEST(ExpectedNodes, WithoutGroupsAreHypergeometric) {
  double missed = 1.0;
  for (int i = 0; i < 8; ++i) {
    missed *= (224.0 - i) / (256.0 - i);
  }
  const ExpertRouting routing = {.num_experts = 256, .topk = 8};
  EXPECT_NEAR(expected_nodes(routing, 8), 8.0 * (1.0 - missed), 1e-12);
  EXPECT_NEAR(expected_nodes(routing, 2), 2.0 * (1.0 - 0.003490), 1e-5);
}

// DeepSeek-V3, 8 of 256 experts in 8 groups, of which 4: by hand, 8 draws come from at most 1, 2, 3
// groups with probabilities 2.05e-7, 3.0109e-4, 0.0163154 (C(8, d) times inclusion and exclusion of
// C(32(d - j), 8), over C(256, 8)). From the fourth group on all draws are from these four.
TEST(ExpectedNodes, OfDeepSeekV3AreNearlyFour) {
  const ExpertRouting routing = {.num_experts = 256, .topk = 8, .num_groups = 8, .group_topk = 4};
  EXPECT_NEAR(expected_nodes(routing, 8), 4.0 - 0.0163154 - 2 * 3.0109e-4 - 3 * 2.05e-7, 1e-6);
}

TEST(ExpectedNodes, LeaveGroupsOutThatStraddleNodes) {
  const ExpertRouting routing = {.num_experts = 24, .topk = 2, .num_groups = 3, .group_topk = 1};
  EXPECT_DOUBLE_EQ(expected_nodes(routing, 4), expected_nodes({.num_experts = 24, .topk = 2}, 4));
  EXPECT_GT(expected_nodes(routing, 4), 1.0);
}

// 128 experts on three nodes, as a group that begins within a node lies.
TEST(ExpectedNodes, ThatDoNotDivideTheExpertsCountAsTheNextThatDo) {
  const ExpertRouting routing = {.num_experts = 128, .topk = 8};
  EXPECT_EQ(expected_nodes(routing, 3), expected_nodes(routing, 4));
  EXPECT_EQ(expected_nodes(routing, 65), expected_nodes(routing, 128));
}

TEST(ExpectedNodes, OfManyExpertsStayWithinBounds) {
  for (const int topk : {1, 6, 8, 22, 256}) {
    const double nodes = expected_nodes({.num_experts = 4096, .topk = topk}, 64);
    EXPECT_GE(nodes, 1.0 - 1e-9) << topk;
    EXPECT_LE(nodes, std::min(topk, 64) + 1e-9) << topk;
  }
}

/// Returns nodes of two GPUs with 100 GB/s inside and 10 GB/s per NIC.
ClusterSpec pairs() {
  ClusterSpec cluster;
  cluster.gpus_per_node = 2;
  cluster.collective_launch = microseconds(5.0);
  cluster.nvlink = {.bandwidth = gigabytes_per_second(100.0), .hop_latency = microseconds(1.0)};
  cluster.nic = {.bandwidth = gigabytes_per_second(10.0), .hop_latency = microseconds(10.0)};
  return cluster;
}

GroupPlacement experts_on(int gpus, const ClusterSpec& cluster) {
  return place_expert_group({.dp = gpus, .ep = gpus}, ExpertDimension::kExpert, cluster);
}

/// A dispatch of 1 MB of tokens, each to two of four experts.
constexpr Dispatch kMegabyte = {.tokens = 500,
                                .hidden_size = 1000,
                                .element_bytes = 2.0,
                                .routing = {.num_experts = 4, .topk = 2}};

// By hand: each token twice, a megabyte each time.
TEST(DispatchTime, OfAllToAllSendsATokenToEachExpert) {
  const ClusterSpec cluster = pairs();
  const GroupPlacement four = experts_on(4, cluster);
  const Seconds expected = all_to_all_time(Bytes(2e6), four, cluster);
  EXPECT_EQ(dispatch_time(kMegabyte, ExpertDispatch::kAllToAll, four, cluster), expected);
  EXPECT_EQ(combine_time(kMegabyte, ExpertDispatch::kAllToAll, four, cluster), expected);
}

// By hand: the tokens of four GPUs.
TEST(DispatchTime, OfAllGatherIsThatOfTheTwoCollectives) {
  const ClusterSpec cluster = pairs();
  const GroupPlacement four = experts_on(4, cluster);
  EXPECT_EQ(dispatch_time(kMegabyte, ExpertDispatch::kAllGather, four, cluster),
            all_gather_time(Bytes(4e6), four, cluster));
  EXPECT_EQ(combine_time(kMegabyte, ExpertDispatch::kAllGather, four, cluster),
            reduce_scatter_time(Bytes(4e6), four, cluster));
}

// By hand, an expert on each of four GPUs: of the 6 pairs of experts 2 lie on one node, so 5/3
// nodes are visited, half of them not its own: 5/6 MB at 10 GB/s, which hides 2 MB at 100 GB/s.
TEST(DispatchTime, OfHierarchicalCrossesNicsOncePerNode) {
  const ClusterSpec cluster = pairs();
  const GroupPlacement four = experts_on(4, cluster);
  const double expected = 5e-6 + 10e-6 + 1e-6 + 5.0 / 6.0 * 1e-4;
  EXPECT_NEAR(dispatch_time(kMegabyte, ExpertDispatch::kHierarchical, four, cluster).value(),
              expected, 1e-12);
  EXPECT_NEAR(combine_time(kMegabyte, ExpertDispatch::kHierarchical, four, cluster).value(),
              expected, 1e-12);
}

// By hand: twice as many bytes cross a tier of half the bandwidth.
TEST(DispatchTime, OfHierarchicalIsLongerThroughAnOversubscribedTier) {
  const ClusterSpec cluster = pairs();
  GroupPlacement four = experts_on(4, cluster);
  four.oversubscription = 2.0;
  EXPECT_NEAR(dispatch_time(kMegabyte, ExpertDispatch::kHierarchical, four, cluster).value(),
              16e-6 + 2.0 * 5.0 / 6.0 * 1e-4, 1e-12);
}

// By hand, with NICs of 1000 GB/s: two GPUs are visited.
TEST(DispatchTime, OfHierarchicalIsThatOfTheSlowerStage) {
  ClusterSpec cluster = pairs();
  cluster.nic.bandwidth = gigabytes_per_second(1000.0);
  EXPECT_NEAR(
      dispatch_time(kMegabyte, ExpertDispatch::kHierarchical, experts_on(4, cluster), cluster)
          .value(),
      16e-6 + 2e-5, 1e-12);
}

// By hand, two experts on each of two GPUs of a node: 2 - 1/3 GPUs are visited, at 100 GB/s.
TEST(DispatchTime, OfHierarchicalWithinANodeHasNoNic) {
  const ClusterSpec cluster = pairs();
  EXPECT_NEAR(
      dispatch_time(kMegabyte, ExpertDispatch::kHierarchical, experts_on(2, cluster), cluster)
          .value(),
      6e-6 + 5.0 / 3.0 * 1e-5, 1e-12);
}

TEST(DispatchTime, OnOneGpuIsNothing) {
  const ClusterSpec cluster = pairs();
  for (const auto& [kind, name] : kExpertDispatchNames) {
    EXPECT_EQ(dispatch_time(kMegabyte, kind, experts_on(1, cluster), cluster), Seconds(0.0))
        << name;
    EXPECT_EQ(combine_time(kMegabyte, kind, experts_on(1, cluster), cluster), Seconds(0.0)) << name;
  }
}

TEST(DispatchTime, GrowsWithTheFactorOfCommunication) {
  ClusterSpec cluster = pairs();
  const GroupPlacement four = experts_on(4, cluster);
  for (const auto& [kind, name] : kExpertDispatchNames) {
    cluster.time_factors.communication = 1.0;
    const Seconds time = dispatch_time(kMegabyte, kind, four, cluster);
    cluster.time_factors.communication = 1.5;
    EXPECT_DOUBLE_EQ(dispatch_time(kMegabyte, kind, four, cluster) / time, 1.5) << name;
  }
}

// One expert per token, any of 16 GPUs on two nodes: half of the tokens cross the NICs, all are
// copied once.
TEST(DispatchVolume, CountsBothStagesOfHierarchicalDispatch) {
  const Dispatch dispatch = {
      .tokens = 100, .hidden_size = 10, .element_bytes = 2.0, .routing = {.num_experts = 16}};
  const GroupPlacement group = {.size = 16, .ranks_per_node = 8, .nodes = 2};
  const auto sent = [&](ExpertDispatch kind) {
    return dispatch_volume(dispatch, kind, group).value();
  };
  EXPECT_DOUBLE_EQ(sent(ExpertDispatch::kHierarchical), 2000.0 / 2 + 2000.0);
  EXPECT_DOUBLE_EQ(sent(ExpertDispatch::kAllToAll), 15.0 / 16 * 2000.0);
  EXPECT_DOUBLE_EQ(sent(ExpertDispatch::kAllGather), 15.0 * 2000.0);
}

}  // namespace
}  // namespace ptdp
