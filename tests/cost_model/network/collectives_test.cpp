// Tests of the volume and time of collectives and messages.
#include "cost_model/network/collectives.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cost_model/inputs/catalog/catalog.h"

namespace ptdp {
namespace {

/// Returns nodes of four GPUs with 100 GB/s inside and 10 GB/s per NIC; hops are the only overhead.
ClusterSpec small_cluster() {
  ClusterSpec cluster;
  cluster.gpus_per_node = 4;
  cluster.nvlink = {.bandwidth = gigabytes_per_second(100.0), .hop_latency = microseconds(1.0)};
  cluster.nic = {.bandwidth = gigabytes_per_second(10.0), .hop_latency = microseconds(10.0)};
  return cluster;
}

GroupPlacement group(const ParallelConfig& config, Dimension dimension,
                     const ClusterSpec& cluster) {
  return place_group(RankGrid(config), dimension, cluster);
}

TEST(RingVolume, OfAnAllReduceGrowsBy175PercentFromTwoToEightRanks) {
  EXPECT_DOUBLE_EQ(ring_all_reduce_volume(Bytes(1.0), 8) / ring_all_reduce_volume(Bytes(1.0), 2),
                   1.75);
}

TEST(RingVolume, OfAnAllReduceIsThatOfItsTwoHalves) {
  for (const std::int64_t ranks : {1, 2, 3, 7, 64}) {
    EXPECT_DOUBLE_EQ(ring_all_reduce_volume(Bytes(5.0), ranks).value(),
                     ring_reduce_scatter_volume(Bytes(5.0), ranks).value() +
                         ring_all_gather_volume(Bytes(5.0), ranks).value())
        << ranks;
  }
}

TEST(RingVolume, IsNothingOnOneRank) {
  EXPECT_EQ(ring_all_reduce_volume(Bytes(1e9), 1), Bytes(0.0));
  EXPECT_EQ(all_to_all_volume(Bytes(1e9), 1), Bytes(0.0));
}

// By hand: each of 4 ranks keeps a quarter of what it holds.
TEST(AllToAllVolume, IsWhatLeavesTheRank) {
  EXPECT_EQ(all_to_all_volume(Bytes(8.0), 4), Bytes(6.0));
}

// SC21 section 3.2: 8bsh(t−1)/t per layer, b·s·h between stages. By hand for b=2, s=4, h=8, t=4.
TEST(Elements, MatchTheHandCount) {
  TransformerConfig model;
  model.seq_length = 4;
  model.hidden_size = 8;
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, 2, 4, Recompute::kNone, false), 8 * 64 * 0.75);
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, 2, 4, Recompute::kSelective, false),
                   8 * 64 * 0.75);
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, 2, 4, Recompute::kFull, false), 12 * 64 * 0.75);
  EXPECT_DOUBLE_EQ(tensor_parallel_elements(model, 2, 4, Recompute::kSelective, true),
                   10 * 64 * 0.75);
  EXPECT_DOUBLE_EQ(pipeline_elements(model, 2, 1, 1), 64.0);
  EXPECT_DOUBLE_EQ(pipeline_elements(model, 2, 3, 4), 64.0 * 3 / 4);
}

TEST(AllReduceTime, IsFreeOnOneRank) {
  const ClusterSpec cluster = small_cluster();
  EXPECT_EQ(all_reduce_time(Bytes(1e9), group({}, Dimension::kTensor, cluster), cluster),
            Seconds(0.0));
}

// By hand: 2·3 hops of 1 us and 2·3/4 of 1 GB at 100 GB/s.
TEST(AllReduceTime, WithinANodeMatchesTheHandComputedTime) {
  const ClusterSpec cluster = small_cluster();
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  EXPECT_DOUBLE_EQ(all_reduce_time(Bytes(1e9), four, cluster).value(), 6e-6 + 0.015);
}

// By hand, 8 ranks of 2 nodes: a ring uses four NICs of 10 GB/s; of 14 hops 2 cross nodes.
TEST(AllReduceTime, AcrossNodesUsesEveryNicOfTheGroup) {
  const ClusterSpec cluster = small_cluster();
  const GroupPlacement eight = group({.tp = 8}, Dimension::kTensor, cluster);
  EXPECT_NEAR(all_reduce_time(Bytes(1e9), eight, cluster).value(), 12e-6 + 20e-6 + 1.75 / 40.0,
              1e-12);
}

// By hand, 2 replicas of a node each: every rank's ring has one NIC.
TEST(AllReduceTime, OfDataParallelGroupsWithOneMemberPerNodeUsesOneNic) {
  const ClusterSpec cluster = small_cluster();
  const GroupPlacement two = group({.tp = 4, .dp = 2}, Dimension::kData, cluster);
  EXPECT_NEAR(all_reduce_time(Bytes(1e9), two, cluster).value(), 20e-6 + 1.0 / 10.0, 1e-12);
}

TEST(AllReduceTime, IsLongerThroughAnOversubscribedTier) {
  ClusterSpec cluster = small_cluster();
  cluster.network_tiers = {{.gpus = 8, .oversubscription = 1.0},
                           {.gpus = 1024, .oversubscription = 7.0}};
  const auto time = [&](int nodes) {
    return all_reduce_time(Bytes(1e9), group({.tp = 4, .dp = nodes}, Dimension::kData, cluster),
                           cluster)
        .value();
  };
  EXPECT_NEAR(time(2), 20e-6 + 1.0 / 10.0, 1e-12);         // within 8 GPUs
  EXPECT_NEAR(time(4), 60e-6 + 1.5 / (10.0 / 7.0), 1e-9);  // 16 GPUs: through the 1:7 tier
}

TEST(AllReduceTime, WithinANodeFollowsTheMeasuredCurve) {
  ClusterSpec cluster = small_cluster();
  cluster.all_reduce_curves.push_back(
      {.ranks = 2,
       .curve = MeasuredCurve({{.size = Bytes(1e6), .time = microseconds(50.0)},
                               {.size = Bytes(4e6), .time = microseconds(80.0)}},
                              "test")});
  const auto time = [&](int tp) {
    return all_reduce_time(Bytes(1e6), group({.tp = tp}, Dimension::kTensor, cluster), cluster);
  };
  EXPECT_EQ(time(2), microseconds(50.0));
  EXPECT_NE(time(4), microseconds(50.0));  // no curve of four ranks: the formula
}

TEST(AllReduceTime, AcrossNodesFollowsTheMeasuredCurveOfAsManyNodes) {
  ClusterSpec cluster = small_cluster();
  const MeasuredCurve curve({{.size = Bytes(1e6), .time = microseconds(50.0)},
                             {.size = Bytes(4e6), .time = microseconds(80.0)}},
                            "test");
  cluster.all_reduce_curves.push_back({.ranks = 8, .nodes = 2, .curve = curve});
  cluster.network_tiers = {{.gpus = 16, .oversubscription = 1.0},
                           {.gpus = 1024, .oversubscription = 7.0}};
  const auto time = [&](const ParallelConfig& config) {
    return all_reduce_time(Bytes(1e6), group(config, Dimension::kData, cluster), cluster);
  };
  EXPECT_EQ(time({.dp = 8}), microseconds(50.0));
  EXPECT_NE(time({.tp = 4, .dp = 8}), microseconds(50.0));  // eight ranks on eight nodes
  EXPECT_NE(time({.tp = 2, .dp = 8}), microseconds(50.0));  // on four
  cluster.network_tiers.front().oversubscription = 2.0;     // not the network that was measured
  EXPECT_NE(time({.dp = 8}), microseconds(50.0));
}

// Nodes of 4 GPUs and 4 NICs of 10 GB/s. Whatever tp is, the 4/k sibling groups of dp with k
// members each use the node's 40 GB/s together, and none of it twice.
TEST(BusBandwidth, OfSiblingGroupsAddsUpToTheNicsOfANode) {
  const ClusterSpec cluster = small_cluster();
  for (const int tp : {1, 2, 4}) {
    const GroupPlacement placement = group({.tp = tp, .dp = 8}, Dimension::kData, cluster);
    EXPECT_EQ(placement.ranks_per_node, 4 / tp);
    const double siblings = tp;  // on every node: one for each rank of a tensor-parallel group
    EXPECT_DOUBLE_EQ(siblings * bus_bandwidth(placement, cluster).value(), 40e9) << tp;
  }
}

// Pipelines of two stages in a node, each with its dp groups: 2 stages · 2 tp ranks = 4 siblings of
// one member on each node.
TEST(BusBandwidth, OfSiblingGroupsOfSeveralStagesDoesTheSame) {
  const ClusterSpec cluster = small_cluster();
  const GroupPlacement placement = group({.tp = 4, .pp = 2, .dp = 8}, Dimension::kData, cluster);
  EXPECT_EQ(placement.ranks_per_node, 1);
  EXPECT_EQ(bus_bandwidth(placement, cluster), gigabytes_per_second(10.0));
}

TEST(BusBandwidth, IsBoundByNvlinkWhereMembersShareANode) {
  ClusterSpec cluster = small_cluster();
  cluster.nic.bandwidth = gigabytes_per_second(50.0);
  EXPECT_EQ(bus_bandwidth(group({.dp = 8}, Dimension::kData, cluster), cluster),
            gigabytes_per_second(100.0));  // not the 200 of four NICs
}

// 0.5 of 10 GB/s for messages, 0.9 for collectives.
TEST(BusBandwidth, IsThatOfCollectivesRatherThanOfMessages) {
  ClusterSpec cluster = small_cluster();
  cluster.nic.efficiency = 0.5;
  cluster.nic.collective_efficiency = 0.9;
  const ParallelConfig config = {.tp = 4, .pp = 2, .dp = 2};
  EXPECT_EQ(bus_bandwidth(group(config, Dimension::kData, cluster), cluster),
            gigabytes_per_second(9.0));
  EXPECT_DOUBLE_EQ(
      message_time(Bytes(1e9), group(config, Dimension::kPipeline, cluster), cluster).value(), 0.2);
}

// 0.5 of 10 GB/s where a node of four GPUs has two or four groups, 0.9 where it has one.
TEST(BusBandwidth, IsThatOfSiblingsWhereANodeHasSeveralGroups) {
  ClusterSpec cluster = small_cluster();
  cluster.nic.collective_efficiency = 0.9;
  cluster.nic.sibling_efficiency = 0.5;
  const auto bandwidth = [&](int tp) {
    return bus_bandwidth(group({.tp = tp, .dp = 8}, Dimension::kData, cluster), cluster).value();
  };
  EXPECT_DOUBLE_EQ(bandwidth(4), 5e9);
  EXPECT_DOUBLE_EQ(bandwidth(2), 10e9);  // two members
  EXPECT_DOUBLE_EQ(bandwidth(1), 36e9);
  // Six GPUs, on nodes of four: two members on the second node, and nobody beside them.
  const GroupPlacement alone = group({.dp = 6}, Dimension::kData, cluster);
  EXPECT_DOUBLE_EQ(bus_bandwidth(alone, cluster).value(), 2 * 9e9);
}

// By hand, 8 ranks on 2 nodes of 4: reduce-scatter and all-gather of S in the nodes, 6 hops of 1 us
// and 1.5·S at 100 GB/s; S/4 between two ranks, 2 hops of 10 us and S/4 at 10 GB/s.
TEST(HierarchicalAllReduceTime, MatchesTheHandComputedTime) {
  const ClusterSpec cluster = small_cluster();
  const GroupPlacement eight = group({.dp = 8}, Dimension::kData, cluster);
  EXPECT_NEAR(hierarchical_all_reduce_time(Bytes(1e9), eight, cluster).value(),
              6e-6 + 0.015 + 20e-6 + 0.025, 1e-12);
}

// Between two nodes, a quarter of 1 GB through a tier of 1:7 takes 7·25 ms, by hand. What stays
// within the nodes takes as long as without the tier.
TEST(HierarchicalAllReduceTime, IsLongerBetweenNodesThroughAnOversubscribedTier) {
  ClusterSpec cluster = small_cluster();
  cluster.network_tiers = {{.gpus = 1024, .oversubscription = 7.0}};
  const GroupPlacement eight = group({.dp = 8}, Dimension::kData, cluster);
  EXPECT_NEAR(hierarchical_all_reduce_time(Bytes(1e9), eight, cluster).value(),
              6e-6 + 0.015 + 20e-6 + 0.175, 1e-12);
  cluster.all_reduce_across_nodes = AllReduceAcrossNodes::kHierarchical;
  EXPECT_NEAR(all_reduce_time(Bytes(1e9), eight, cluster).value(), 0.190026, 1e-12);
}

TEST(HierarchicalAllReduceTime, OfOneMemberPerNodeOrOneNodeIsAFlatOne) {
  const ClusterSpec cluster = small_cluster();
  for (const ParallelConfig& config : {ParallelConfig{.tp = 4, .dp = 8}, ParallelConfig{.dp = 4}}) {
    const GroupPlacement placement = group(config, Dimension::kData, cluster);
    EXPECT_EQ(hierarchical_all_reduce_time(Bytes(1e9), placement, cluster),
              all_reduce_time(Bytes(1e9), placement, cluster));
  }
}

// By hand, 64 ranks on 16 nodes of 4. Flat: 126 steps of which 30 cross, 96 + 300 us, and
// 2·63/64·S/40 GB/s. In three steps: 6 + 300 us, and 1.5·S/100 GB/s + 2·15/16·(S/4)/10 GB/s. The
// hops that it saves are worth more than its passes within the nodes up to some MB.
TEST(AllReduceTime, AcrossNodesIsHierarchicalWhereTheClusterSaysSo) {
  ClusterSpec cluster = small_cluster();
  const GroupPlacement placement = group({.dp = 64}, Dimension::kData, cluster);
  const auto time = [&](double size, AllReduceAcrossNodes across) {
    cluster.all_reduce_across_nodes = across;
    return all_reduce_time(Bytes(size), placement, cluster).value();
  };
  const auto flat = [](double size) { return 396e-6 + 126.0 / 64.0 * size / 40e9; };
  const auto levels = [](double size) {
    return 306e-6 + 1.5 * size / 100e9 + 30.0 / 16.0 * size / 40e9;
  };
  for (const double size : {1e5, 1e8}) {
    EXPECT_NEAR(time(size, AllReduceAcrossNodes::kFlat), flat(size), 1e-12);
    EXPECT_NEAR(time(size, AllReduceAcrossNodes::kHierarchical), levels(size), 1e-12);
  }
  EXPECT_LT(levels(1e5), flat(1e5));
  EXPECT_NEAR(time(1e5, AllReduceAcrossNodes::kFaster), levels(1e5), 1e-12);
  EXPECT_GT(levels(1e8), flat(1e8));
  EXPECT_NEAR(time(1e8, AllReduceAcrossNodes::kFaster), flat(1e8), 1e-12);
}

/// Returns small_cluster() with a tuner that knows only rings and the Simple protocol.
ClusterSpec small_cluster_with_nccl() {
  ClusterSpec cluster = small_cluster();
  cluster.nccl = NcclSpec{.compute_capability = 80,
                          .channels = 4,
                          .channels_per_nic = 2,
                          .launch = microseconds(10.0),
                          .ramp = microseconds(4.0),
                          .enabled = {.algorithms = {false, true, true, true, false},
                                      .protocols = {false, false, true}}};
  return cluster;
}

// By hand: NCCL's 8.4 + 6·3.4 = 28.8 us for a ring of four; 3/2 of 10 MB at 100 GB/s = 150 us,
// with a ramp of 4 us (√150 + 2)² us.
TEST(AllReduceTime, OfATunerIsItsLatencyAndARampedTransfer) {
  const ClusterSpec cluster = small_cluster_with_nccl();
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  const double ramped = (std::sqrt(150.0) + 2.0) * (std::sqrt(150.0) + 2.0);
  EXPECT_NEAR(all_reduce_time(Bytes(1e7), four, cluster).value() / kMicro, 10.0 + 28.8 + ramped,
              1e-6);
}

// By hand, 8 ranks on 2 nodes: 8.4 + 12·3.4 + 2·14 = 77.2 us, times 1.4; 7/4 of 10 MB at 40 GB/s =
// 437.5 us.
TEST(AllReduceTime, OfATunerAcrossNodesSharesTheNicsOfItsMembers) {
  ClusterSpec cluster = small_cluster_with_nccl();
  cluster.nccl->ramp = Seconds(0.0);
  const GroupPlacement eight = group({.dp = 8}, Dimension::kData, cluster);
  EXPECT_NEAR(all_reduce_time(Bytes(1e7), eight, cluster).value() / kMicro,
              10.0 + 1.4 * 77.2 + 437.5, 1e-6);
}

// By hand: NVLS takes 25 us, and 3/2 of 10 MB at 150 GB/s = 100 us; half a node has none.
TEST(AllReduceTime, OfATunerTakesNvlsOverAWholeNode) {
  ClusterSpec cluster = small_cluster_with_nccl();
  cluster.nccl->compute_capability = 90;
  cluster.nccl->ramp = Seconds(0.0);
  cluster.nccl->nvls = {.channels = 4, .bandwidth = gigabytes_per_second(150.0)};
  const auto time = [&](int tp) {
    return all_reduce_time(Bytes(1e7), group({.tp = tp}, Dimension::kTensor, cluster), cluster)
               .value() /
           kMicro;
  };
  EXPECT_NEAR(time(4), 10.0 + 25.0 + 100.0, 1e-6);
  EXPECT_NEAR(time(2), 10.0 + 8.4 + 2.0 * 3.4 + 100.0, 1e-6);  // 10 MB at 100 GB/s
}

/// Returns small_cluster_with_nccl() with constants of its own within a node: 1 us of launch, no
/// ramp but Simple's, half of the rate for two GPUs and four fifths for four.
ClusterSpec small_cluster_measured_within_nodes() {
  ClusterSpec cluster = small_cluster_with_nccl();
  cluster.nccl_within_node = cluster.nccl;
  cluster.nccl_within_node->channels_per_nic = 0;
  cluster.nccl_within_node->launch = microseconds(1.0);
  cluster.nccl_within_node->ramp = Seconds(0.0);
  cluster.nccl_within_node->simple_ramp = microseconds(4.0);
  cluster.nccl_within_node->group_rates = {{.gpus = 2, .share = 0.5}, {.gpus = 4, .share = 0.8}};
  return cluster;
}

// By hand: 8.4 + 2·3.4 = 15.2 us for a ring of two, and 10 MB at 50 GB/s = 200 us; 28.8 us for a
// ring of four, as for one of three 8.4 + 4·3.4 = 22 us, and 3/2 or 4/3 of 10 MB at 80 GB/s. A node
// of eight has no share for five, which reach the whole rate: 8.4 + 8·3.4 = 35.6 us, 8/5 of 10 MB.
TEST(AllReduceTime, WithinANodeHasItsOwnConstants) {
  ClusterSpec cluster = small_cluster_measured_within_nodes();
  cluster.gpus_per_node = 8;
  const auto ramped = [](double transfer) {
    return (std::sqrt(transfer) + 2.0) * (std::sqrt(transfer) + 2.0);
  };
  const auto time = [&](int tp) {
    return all_reduce_time(Bytes(1e7), group({.tp = tp}, Dimension::kTensor, cluster), cluster)
               .value() /
           kMicro;
  };
  EXPECT_NEAR(time(2), 1.0 + 15.2 + ramped(200.0), 1e-6);
  EXPECT_NEAR(time(3), 1.0 + 22.0 + ramped(400.0 / 3.0 / 0.8), 1e-6);
  EXPECT_NEAR(time(4), 1.0 + 28.8 + ramped(187.5), 1e-6);
  EXPECT_NEAR(time(5), 1.0 + 35.6 + ramped(160.0), 1e-6);
}

TEST(AllReduceTime, AcrossNodesKnowsNothingOfConstantsWithinThem) {
  const ClusterSpec cluster = small_cluster_measured_within_nodes();
  const GroupPlacement eight = group({.dp = 8}, Dimension::kData, cluster);
  EXPECT_EQ(all_reduce_time(Bytes(1e7), eight, cluster),
            all_reduce_time(Bytes(1e7), eight, small_cluster_with_nccl()));
  ClusterSpec ring = cluster;
  ring.nccl.reset();
  EXPECT_EQ(all_reduce_time(Bytes(1e7), eight, ring),
            all_reduce_time(Bytes(1e7), eight, small_cluster()));
}

// By hand: Ring/LL takes 6.6 + 6·0.6 = 10.2 us, and 3/2 of 1 MB at half of 80 GB/s = 37.5 us; LL
// has no ramp of Simple's.
TEST(AllReduceTime, OnlySimpleHasSimplesRamp) {
  ClusterSpec cluster = small_cluster_measured_within_nodes();
  cluster.nccl_within_node->enabled.protocols = {true, false, false};
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  EXPECT_NEAR(all_reduce_time(Bytes(1e6), four, cluster).value() / kMicro, 1.0 + 10.2 + 37.5, 1e-6);
}

// By hand: NVLS takes 25 us, and 3/2 of 10 MB at 150 GB/s = 100 us, with its own ramp of 9 us
// (10 + 3)² us, else with Simple's of 4 us (10 + 2)² us.
TEST(AllReduceTime, OfNvlsMayHaveARampOfItsOwn) {
  ClusterSpec cluster = small_cluster_measured_within_nodes();
  cluster.nccl_within_node->compute_capability = 90;
  cluster.nccl_within_node->nvls = {.channels = 4, .bandwidth = gigabytes_per_second(150.0)};
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  const auto time = [&] { return all_reduce_time(Bytes(1e7), four, cluster).value() / kMicro; };
  EXPECT_NEAR(time(), 1.0 + 25.0 + 144.0, 1e-6);
  cluster.nccl_within_node->nvls.ramp = microseconds(9.0);
  EXPECT_NEAR(time(), 1.0 + 25.0 + 169.0, 1e-6);
}

// By hand: 8.4 + 3·3.4 = 18.6 us, and 3/4 of 10 MB at 100 GB/s = 75 us.
TEST(AllGatherTime, OfATunerIsItsOwn) {
  ClusterSpec cluster = small_cluster_with_nccl();
  cluster.nccl->ramp = Seconds(0.0);
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  EXPECT_NEAR(all_gather_time(Bytes(1e7), four, cluster).value() / kMicro, 10.0 + 18.6 + 75.0,
              1e-6);
  EXPECT_EQ(reduce_scatter_time(Bytes(1e7), four, cluster),
            all_gather_time(Bytes(1e7), four, cluster));
  EXPECT_EQ(all_gather_time(Bytes(1e7), group({}, Dimension::kTensor, cluster), cluster),
            Seconds(0.0));
}

// ml-engineering, network/README.md at 744d01e, 16 GiB on 8 H200: 361.4 GB/s of bus bandwidth for
// an all-gather, which cannot use the switches that make the all-reduces of the cluster's curve
// faster (482 GB/s). By the curve's half it would be a third too fast.
TEST(AllGatherTime, OnEightH200IsThePublishedOne) {
  const ClusterSpec cluster = find_cluster("hgx-h200");
  const Bytes size = gibibytes(16.0);
  const Seconds time =
      all_gather_time(size, group({.tp = 8}, Dimension::kTensor, cluster), cluster);
  const double bus_bandwidth = (ring_all_gather_volume(size, 8) / time).value() / kGiga;
  EXPECT_NEAR(bus_bandwidth, 361.4, 0.03 * 361.4);
}

// vTrain trace/a100 (a100-nvswitch.json): 8 GPUs, 64 MiB in 573 us; ml-engineering measured 685 us
// on another machine, which shows the scatter between machines.
TEST(AllReduceTime, OnSeleneIsThePublishedOne) {
  const ClusterSpec selene = find_cluster("selene-a100");
  const GroupPlacement eight = group({.tp = 8}, Dimension::kTensor, selene);
  EXPECT_NEAR(all_reduce_time(Bytes(64.0 * 1024 * 1024), eight, selene).value() * 1e6, 576.0, 10.0);
}

TEST(AllGatherTime, AndReduceScatterAreHalvesOfAnAllReduce) {
  const ClusterSpec cluster = small_cluster();
  const GroupPlacement eight = group({.tp = 8}, Dimension::kTensor, cluster);
  const double all_reduce = all_reduce_time(Bytes(1e8), eight, cluster).value();
  EXPECT_DOUBLE_EQ(all_gather_time(Bytes(1e8), eight, cluster).value() +
                       reduce_scatter_time(Bytes(1e8), eight, cluster).value(),
                   all_reduce);
}

TEST(MessageTime, IsPacedByTheSlowestLinkOfThePipeline) {
  const ClusterSpec cluster = small_cluster();
  const auto time = [&](const ParallelConfig& config) {
    return message_time(Bytes(1e9), group(config, Dimension::kPipeline, cluster), cluster).value();
  };
  EXPECT_DOUBLE_EQ(time({.tp = 2, .pp = 2}), 0.01);  // one node
  EXPECT_DOUBLE_EQ(time({.tp = 4, .pp = 2}), 0.1);   // two nodes
  EXPECT_DOUBLE_EQ(time({.tp = 2, .pp = 4}), 0.1);   // pairs within nodes, one link between them
}

// Once, and in every way in which the time of a message is found.
TEST(MessageTime, GrowsWithTheFactorOfCommunication) {
  ClusterSpec cluster = small_cluster();
  const auto expect_growth = [&](const ParallelConfig& config) {
    const GroupPlacement pipeline = group(config, Dimension::kPipeline, cluster);
    cluster.time_factors.communication = 1.0;
    const Seconds time = message_time(Bytes(1e9), pipeline, cluster);
    cluster.time_factors.communication = 1.5;
    EXPECT_DOUBLE_EQ(message_time(Bytes(1e9), pipeline, cluster) / time, 1.5);
  };
  expect_growth({.tp = 2, .pp = 2});  // one node
  expect_growth({.tp = 4, .pp = 2});  // two nodes
  cluster.network_tiers = {{.gpus = 1024, .oversubscription = 7.0}};
  expect_growth({.tp = 4, .pp = 2});
  cluster.message_curve = MeasuredCurve({{.size = Bytes(1e6), .time = microseconds(50.0)},
                                         {.size = Bytes(4e6), .time = microseconds(80.0)}},
                                        "test");
  expect_growth({.tp = 2, .pp = 2});
}

// Once, though a hierarchical all-reduce is made of three collectives.
TEST(AllReduceTime, AndItsHalvesGrowWithTheFactorOfCommunication) {
  for (const ClusterSpec& cluster : {small_cluster(), small_cluster_with_nccl()}) {
    const GroupPlacement eight = group({.dp = 8}, Dimension::kData, cluster);
    ClusterSpec slower = cluster;
    slower.time_factors.communication = 1.5;
    for (const auto time :
         {all_reduce_time, hierarchical_all_reduce_time, all_gather_time, reduce_scatter_time}) {
      EXPECT_DOUBLE_EQ(time(Bytes(1e9), eight, slower) / time(Bytes(1e9), eight, cluster), 1.5);
    }
  }
}

TEST(AllToAllTime, IsFreeOnOneRank) {
  const ClusterSpec cluster = small_cluster();
  EXPECT_EQ(all_to_all_time(Bytes(1e9), group({}, Dimension::kTensor, cluster), cluster),
            Seconds(0.0));
}

// By hand: 3/4 of 1 GB at 100 GB/s, and a hop of 1 us, for all three sends fly at once.
TEST(AllToAllTime, WithinANodeMatchesTheHandComputedTime) {
  ClusterSpec cluster = small_cluster();
  cluster.collective_launch = microseconds(5.0);
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  EXPECT_DOUBLE_EQ(all_to_all_time(Bytes(1e9), four, cluster).value(), 5e-6 + 1e-6 + 0.0075);
}

// By hand, 16 ranks of 4 nodes: 12/16 of 1 GB over one NIC of 10 GB/s, which hides 3/16 of it at
// 100 GB/s; 15 sends are two batches of eight.
TEST(AllToAllTime, AcrossNodesHasOneNicPerRank) {
  const ClusterSpec cluster = small_cluster();
  const GroupPlacement sixteen = group({.tp = 16}, Dimension::kTensor, cluster);
  EXPECT_DOUBLE_EQ(all_to_all_time(Bytes(1e9), sixteen, cluster).value(), 20e-6 + 0.075);
}

// By hand, 8 ranks of 2 nodes with NICs of 1000 GB/s: 3/8 of 1 GB at 100 GB/s within the node.
TEST(AllToAllTime, IsThatOfTheSlowerPart) {
  ClusterSpec cluster = small_cluster();
  cluster.nic.bandwidth = gigabytes_per_second(1000.0);
  const GroupPlacement eight = group({.tp = 8}, Dimension::kTensor, cluster);
  EXPECT_DOUBLE_EQ(all_to_all_time(Bytes(1e9), eight, cluster).value(), 10e-6 + 0.00375);
}

// By hand: half of 1 GB over a NIC of 10 GB/s through a tier of 1:7.
TEST(AllToAllTime, IsLongerThroughAnOversubscribedTier) {
  ClusterSpec cluster = small_cluster();
  cluster.network_tiers = {{.gpus = 1024, .oversubscription = 7.0}};
  const GroupPlacement two = group({.tp = 4, .dp = 2}, Dimension::kData, cluster);
  EXPECT_DOUBLE_EQ(all_to_all_time(Bytes(1e9), two, cluster).value(), 10e-6 + 0.35);
}

// By hand: x = 7.5 ms, tau = 30 us, (sqrt(7500) + sqrt(30))^2 = 7500 + 30 + 2 * 474.3416 us; NCCL's
// 8.4 us, a hop of 1 us and a launch of 5 us.
TEST(AllToAllTime, HasTheLaunchAndTheRampOfNccl) {
  ClusterSpec cluster = small_cluster();
  cluster.collective_launch = microseconds(100.0);
  cluster.nccl = NcclSpec{
      .launch = microseconds(5.0), .ramp = microseconds(10.0), .simple_ramp = microseconds(20.0)};
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  EXPECT_NEAR(all_to_all_time(Bytes(1e9), four, cluster).value(),
              (5.0 + 8.4 + 1.0 + 7530.0 + 948.6833) * 1e-6, 1e-9);
}

// By hand, 8 ranks of 2 nodes: half of 1 GB over a NIC of 10 GB/s is x = 50 ms, with tau = 20 us
// (sqrt(50000) + sqrt(20))^2 = 50000 + 20 + 2 * 1000 us; a hop of 10 us, and the cluster's launch.
TEST(AllToAllTime, AcrossNodesHasTheLaunchOfTheCluster) {
  ClusterSpec cluster = small_cluster();
  cluster.collective_launch = microseconds(100.0);
  cluster.nccl = NcclSpec{.launch = microseconds(5.0), .ramp = microseconds(20.0)};
  cluster.nccl_within_node = NcclSpec{.launch = microseconds(7.0), .ramp = microseconds(3.0)};
  const GroupPlacement eight = group({.tp = 8}, Dimension::kTensor, cluster);
  EXPECT_NEAR(all_to_all_time(Bytes(1e9), eight, cluster).value(),
              (100.0 + 10.0 + 50020.0 + 2000.0) * 1e-6, 1e-9);
}

TEST(AllToAllTime, GrowsWithTheFactorOfCommunication) {
  ClusterSpec cluster = small_cluster();
  const GroupPlacement four = group({.tp = 4}, Dimension::kTensor, cluster);
  const Seconds time = all_to_all_time(Bytes(1e9), four, cluster);
  cluster.time_factors.communication = 1.5;
  EXPECT_EQ(all_to_all_time(Bytes(1e9), four, cluster), time * 1.5);
}

TEST(ExposedBehind, IsWhatComputeDoesNotHideAndWhatHidingCosts) {
  const auto exposed = [](double communication, double compute, double slowdown) {
    return exposed_behind(Seconds(communication), Seconds(compute), slowdown).value();
  };
  EXPECT_DOUBLE_EQ(exposed(3.0, 5.0, 0.0), 0.0);
  EXPECT_DOUBLE_EQ(exposed(5.0, 5.0, 0.0), 0.0);
  EXPECT_DOUBLE_EQ(exposed(7.0, 5.0, 0.0), 2.0);
  EXPECT_DOUBLE_EQ(exposed(3.0, 5.0, 0.25), 0.75);
  EXPECT_DOUBLE_EQ(exposed(7.0, 5.0, 0.25), 3.25);
  EXPECT_DOUBLE_EQ(exposed(7.0, 0.0, 0.25), 7.0);
}

// What was measured of two by two neighbors says nothing of other groups of four.
TEST(MeasuredCurves, AreOfGroupsThatLieAlike) {
  ClusterSpec cluster = small_cluster();
  cluster.all_reduce_curves = {
      {.ranks = 4,
       .nodes = 2,
       .curve = MeasuredCurve({{.size = Bytes(1e6), .time = microseconds(50.0)},
                               {.size = Bytes(4e6), .time = microseconds(80.0)}},
                              "test")}};
  const GroupPlacement alike = {.size = 4, .ranks_per_node = 2, .nodes = 2};
  EXPECT_EQ(measured_curve(alike, cluster), &cluster.all_reduce_curves[0].curve);
  for (const GroupPlacement& other :
       {GroupPlacement{.size = 4, .ranks_per_node = 4, .nodes = 1},
        GroupPlacement{.size = 4, .ranks_per_node = 1, .nodes = 2},
        GroupPlacement{.size = 6, .ranks_per_node = 3, .nodes = 2},
        GroupPlacement{.size = 4, .ranks_per_node = 1, .nodes = 4},
        GroupPlacement{.size = 4, .ranks_per_node = 2, .nodes = 2, .oversubscription = 1.5}}) {
    EXPECT_EQ(measured_curve(other, cluster), nullptr) << other.size << ' ' << other.nodes;
  }
  // A measured all-reduce is not split into hierarchical steps.
  cluster.all_reduce_across_nodes = AllReduceAcrossNodes::kHierarchical;
  EXPECT_EQ(all_reduce_time(Bytes(1e6), alike, cluster), microseconds(50.0));
}

// By hand: what the smallest message takes is the stack's pipeline_latency.
TEST(MessageTime, OnANodeIsWhatWasMeasuredBeyondTheSmallestMessage) {
  ClusterSpec cluster = small_cluster();
  const GroupPlacement node = {.size = 2, .ranks_per_node = 2};
  const GroupPlacement apart = {
      .size = 2, .ranks_per_node = 1, .nodes = 2, .oversubscription = 4.0};
  EXPECT_FALSE(is_message_measured(node, cluster));
  cluster.message_curve = MeasuredCurve({{.size = Bytes(1e6), .time = microseconds(50.0)},
                                         {.size = Bytes(4e6), .time = microseconds(80.0)}},
                                        "test");
  EXPECT_TRUE(is_message_measured(node, cluster));
  EXPECT_FALSE(is_message_measured(apart, cluster));
  EXPECT_NEAR(message_time(Bytes(4e6), node, cluster).value(), 30e-6, 1e-15);
  EXPECT_EQ(message_time(Bytes(1e6), node, cluster), Seconds(0.0));
  EXPECT_EQ(message_time(Bytes(1.0), node, cluster), Seconds(0.0));
  EXPECT_NEAR(message_time(Bytes(1e9), apart, cluster).value(), 0.4, 1e-12);
}

}  // namespace
}  // namespace ptdp
