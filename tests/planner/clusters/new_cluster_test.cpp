#include "planner/clusters/new_cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <iomanip>
#include <map>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/inputs/rank_grid.h"
#include "cost_model/network/collectives.h"
#include "cost_model/text/csv_table.h"
#include "tests/support/error_of.h"

namespace ptdp {
namespace {

using testing::Contains;
using testing::HasSubstr;

double gigabytes_of(BytesPerSecond rate) {
  return rate.value() / kGiga;
}

TEST(NicFlags, CountBitsAndBytes) {
  EXPECT_EQ(parse_nics("4x400Gb", "--nic").count, 4);
  EXPECT_DOUBLE_EQ(gigabytes_of(parse_nics("4x400Gb", "--nic").each), 50.0);
  EXPECT_DOUBLE_EQ(gigabytes_of(parse_nics("8x50GB/s", "--nic").each), 50.0);
  EXPECT_DOUBLE_EQ(gigabytes_of(parse_nics("2x200Gbps", "--nic").each), 25.0);
  EXPECT_DOUBLE_EQ(gigabytes_of(parse_rate("450", "--link")), 450.0);
  EXPECT_DOUBLE_EQ(gigabytes_of(parse_rate("3600Gb/s", "--link")), 450.0);
  for (const char* text :
       {"400Gb", "x400Gb", "0x400Gb", "4x", "4x-1Gb", "4x400Tb", "4x4e999Gb", "4x1e300Gb"}) {
    EXPECT_THAT(error_of([&] { (void)parse_nics(text, "--nic"); }),
                HasSubstr("--nic: expected the NICs of a node"))
        << text;
  }
  EXPECT_THAT(error_of([&] { (void)parse_rate("fast", "--link"); }), HasSubstr("--link: expected"));
}

TEST(NewClusters, TakeGpuNodeAndNicsThatAreGiven) {
  const NewCluster made = make_cluster({.from = find_cluster("dgx-h100"),
                                        .gpu = find_gpu("rtx-4090"),
                                        .gpus_per_node = 4,
                                        .nics = parse_nics("4x400Gb", "--nic")});
  EXPECT_EQ(made.cluster.name, "my-dgx-h100");
  EXPECT_EQ(made.cluster.gpu.name, "rtx-4090");
  EXPECT_EQ(made.cluster.gpus_per_node, 4);
  EXPECT_DOUBLE_EQ(gigabytes_of(made.cluster.nic.bandwidth), 50.0);
  // An RTX 4090 has no NVLink: its node's links are those of its own shipped cluster.
  EXPECT_EQ(made.cluster.nvlink, find_cluster("8x-rtx-4090").nvlink);
}

TEST(NewClusters, BeginAsTheShippedOneOfTheGpu) {
  EXPECT_THAT(make_cluster({.gpu = find_gpu("mi300x")}).lines, Contains("begins as 8x-mi300x"));
}

TEST(NewClusters, OfAnUnknownGpuNeedItsLink) {
  GpuSpec gpu = find_gpu("gh200-96gb");
  gpu.name = "mine";
  const ClusterSpec from = find_cluster("dgx-h100");
  EXPECT_THAT(error_of([&] { (void)make_cluster({.gpu = gpu}); }),
              HasSubstr("--from is missing: no shipped cluster has a GPU mine"));
  EXPECT_THAT(error_of([&] { (void)make_cluster({.from = from, .gpu = gpu}); }),
              HasSubstr("--link is missing"));
  const NewCluster made =
      make_cluster({.from = from, .gpu = gpu, .link = gigabytes_per_second(150.0)});
  EXPECT_DOUBLE_EQ(gigabytes_of(made.cluster.nvlink.bandwidth), 150.0);
  EXPECT_FALSE(made.cluster.nccl.has_value());
  EXPECT_THAT(made.warnings, Contains(HasSubstr("what kernels reach on mine is taken from h100")));
  EXPECT_THAT(error_of([&] { (void)make_cluster({}); }), HasSubstr("--from is missing"));
}

/// Returns the cluster that a topology makes of a shipped one.
NewCluster with_topology(const char* from, const NodeTopology& node) {
  return make_cluster(
      {.from = find_cluster(from), .topology = FromFile<NodeTopology>{"t.txt", node}});
}

// Through switches each pair has all twelve links of an A100; without, four lead to each of three.
TEST(NewClusters, TakeLinksOfATopology) {
  const NewCluster switched =
      with_topology("dgx-h100", {.gpus = 4, .nvlinks = 12, .links_of_gpu = 36, .is_joined = true});
  EXPECT_EQ(switched.cluster.gpus_per_node, 4);
  EXPECT_DOUBLE_EQ(gigabytes_of(switched.cluster.nvlink.bandwidth), 300.0);
  const NewCluster direct = with_topology(
      "dgx-a100-40gb", {.gpus = 4, .nvlinks = 4, .links_of_gpu = 12, .is_joined = true});
  EXPECT_DOUBLE_EQ(gigabytes_of(direct.cluster.nvlink.bandwidth), 300.0);
  const NewCluster blackwell =
      with_topology("dgx-b200", {.gpus = 8, .nvlinks = 18, .links_of_gpu = 126, .is_joined = true});
  EXPECT_DOUBLE_EQ(gigabytes_of(blackwell.cluster.nvlink.bandwidth), 900.0);
  EXPECT_THAT(error_of([] {
                (void)with_topology(
                    "dgx-a100-40gb",
                    {.gpus = 4, .nvlinks = 4, .links_of_gpu = 4, .pairs_over_pcie = 4});
              }),
              HasSubstr("t.txt: NVLink joins some pairs of GPUs, 4 others meet over PCIe; --link"));
  EXPECT_THAT(error_of([] { (void)with_topology("dgx-h100", {.gpus = 8}); }),
              HasSubstr("t.txt: its GPUs have no NVLink; --link says"));
}

// A tray of a rack shows its own GPUs; NVLink joins those of the rack.
TEST(NewClusters, KeepTheRackOfATray) {
  const ClusterSpec rack = find_cluster("dgx-gb200");
  const NewCluster made = make_cluster(
      {.from = rack,
       .topology =
           FromFile<NodeTopology>{
               "t.txt", {.gpus = 4, .nvlinks = 18, .links_of_gpu = 54, .is_joined = true}},
       .slurm = SlurmJob{.nodes = 36, .gpus_per_node = 4}});
  EXPECT_EQ(made.cluster.gpus_per_node, rack.gpus_per_node);
  EXPECT_EQ(made.cluster.gpus_per_tray, rack.gpus_per_tray);
  EXPECT_EQ(made.cluster.nvlink.bandwidth, rack.nvlink.bandwidth);
  EXPECT_EQ(made.cluster.max_gpus(), 144);
}

TEST(NewClusters, KeepRatesOfGroupsWhenTheLinkChanges) {
  const ClusterSpec from = find_cluster("8x-mi300x");
  const NewCluster made = make_cluster({.from = from, .link = gigabytes_per_second(400.0)});
  const GroupPlacement pair{.size = 2, .ranks_per_node = 2};
  EXPECT_NEAR(bus_bandwidth(pair, made.cluster) / bus_bandwidth(pair, from), 400.0 / 448.0, 1e-9);
}

TEST(NewClusters, RefuseTheReportOfAnotherGpu) {
  const SmiReport smi{.product = "NVIDIA H100 80GB HBM3", .gpus = 8, .memory = gibibytes(79.5)};
  EXPECT_THAT(error_of([&] {
                (void)make_cluster({.gpu = find_gpu("l4"), .smi = FromFile<SmiReport>{"s", smi}});
              }),
              HasSubstr("s: expected a GPU l4, got NVIDIA H100 80GB HBM3"));
}

TEST(NewClusters, TakeMemoryAndNodesOfAJob) {
  const SmiReport smi{.product = "x", .gpus = 8, .memory = gibibytes(79.5)};
  const NewCluster made = make_cluster({.from = find_cluster("dgx-h100"),
                                        .smi = FromFile<SmiReport>{"smi.xml", smi},
                                        .slurm = SlurmJob{.nodes = 16, .gpus_per_node = 8}});
  EXPECT_EQ(made.cluster.gpu.memory, gibibytes(79.5));
  EXPECT_EQ(made.cluster.max_gpus(), 128);
}

TEST(NewClusters, TakeCopiesAsTheRateOfMessages) {
  const CopyRates rates{.host_to_device = gigabytes_per_second(56.0),
                        .device_to_host = gigabytes_per_second(50.0),
                        .device_to_device = gigabytes_per_second(405.0)};
  const NewCluster made = make_cluster(
      {.from = find_cluster("dgx-h100"), .copies = FromFile<CopyRates>{"b.json", rates}});
  EXPECT_DOUBLE_EQ(gigabytes_of(made.cluster.host.value().link_bandwidth), 50.0);
  EXPECT_DOUBLE_EQ(made.cluster.nvlink.efficiency, 0.9);
  EXPECT_DOUBLE_EQ(made.cluster.nvlink.collective_efficiency.value_or(0.0), 0.82);
}

TEST(NewClusters, RefuseBenchesOfMoreGpusThanANodeHas) {
  const ClusterFacts facts{.from = find_cluster("dgx-h100"),
                           .benches = {{.place = "a.txt",
                                        .ranks = 16,
                                        .points = {{Bytes(1e6), microseconds(50.0)},
                                                   {Bytes(2e6), microseconds(90.0)}}}}};
  EXPECT_THAT(error_of([&] { (void)make_cluster(facts); }),
              HasSubstr("a.txt: 16 ranks on 1 node, whose nodes have 8 GPUs: --gpus-per-node"));
}

/// Returns the time that a cluster gives a collective of nccl-tests.
Seconds time_of(BenchedCollective collective, Bytes size, const GroupPlacement& group,
                const ClusterSpec& cluster) {
  switch (collective) {
    case BenchedCollective::kAllGather:
      return all_gather_time(size, group, cluster);
    case BenchedCollective::kReduceScatter:
      return reduce_scatter_time(size, group, cluster);
    case BenchedCollective::kAllToAll:
      return all_to_all_time(size, group, cluster);
    default:
      return all_reduce_time(size, group, cluster);
  }
}

/// Returns an output of nccl-tests with one row for each size and time [B, us].
std::string printed_table(const std::vector<std::pair<double, double>>& rows) {
  std::ostringstream text;
  text << std::setprecision(12);
  for (const auto& [bytes, us] : rows) {
    const double rate = bytes / us / 1e3;
    text << bytes << ' ' << bytes / 2 << " half sum -1 " << us << ' ' << rate << ' ' << rate
         << " 0\n";
  }
  return text.str();
}

// NCCL's own tuner on ten communicators (tests/golden/nccl_tuning_vectors.csv), printed as
// nccl-tests prints: each of the 96 methods makes a cluster that gives its four times back.
TEST(NewClusters, GiveBackNinetySixVectorsOfNccl) {
  const CsvTable table =
      CsvTable::from_file(std::string(PTDP_SOURCE_DIR) + "/tests/golden/nccl_tuning_vectors.csv");
  const std::map<std::string, BenchedCollective> collectives = {
      {"AllReduce", BenchedCollective::kAllReduce},
      {"AllGather", BenchedCollective::kAllGather},
      {"ReduceScatter", BenchedCollective::kReduceScatter}};
  const std::vector<std::pair<const char*, double>> columns = {
      {"t_8KiB", 8192.0}, {"t_1MiB", 1048576.0}, {"t_64MiB", 67108864.0}, {"t_1GiB", 1073741824.0}};
  std::size_t num_checked = 0;
  for (std::size_t i = 0; i < table.num_rows(); ++i) {
    const BenchedCollective collective = collectives.at(table.text(i, "coll"));
    const int ranks = std::stoi(table.text(i, "ranks"));
    const int nodes = std::stoi(table.text(i, "nodes"));
    std::vector<std::pair<double, double>> rows;
    for (const auto& [column, bytes] : columns) {
      rows.emplace_back(bytes, std::stod(table.text(i, column)));
    }
    ClusterSpec from = find_cluster("dgx-h100");
    from.gpus_per_node = ranks / nodes;
    const NewCluster made = make_cluster(
        {.from = from,
         .benches = {read_nccl_tests(printed_table(rows), "v.txt",
                                     {.collective = collective, .ranks = ranks, .nodes = nodes})}});
    const GroupPlacement group{
        .size = ranks, .ranks_per_node = ranks / nodes, .nodes = nodes, .is_alone = true};
    for (const auto& [bytes, us] : rows) {
      const double time = time_of(collective, Bytes(bytes), group, made.cluster).value() / kMicro;
      EXPECT_NEAR(time / us, 1.0, 0.01) << table.text(i, "case") << ' ' << bytes;
      ++num_checked;
    }
  }
  EXPECT_EQ(num_checked, 4U * 96U);
}

// A bench over all GPUs of a node also says what groups of other sizes reach of the link.
TEST(NewClusters, TakeTheLargestSizeAsTheRateOfAllGroups) {
  const std::vector<std::pair<double, double>> rows = {{1048576.0, 60.0}, {1073741824.0, 8000.0}};
  const NewCluster made = make_cluster(
      {.from = find_cluster("dgx-h100"),
       .benches = {read_nccl_tests(printed_table(rows), "g.txt",
                                   {.collective = BenchedCollective::kAllGather, .ranks = 8})}});
  const GroupPlacement whole{.size = 8, .ranks_per_node = 8};
  // 7/8 of 1 GiB in 8 ms.
  EXPECT_NEAR(gigabytes_of(bus_bandwidth(whole, made.cluster)), 0.875 * 1.073741824 / 8e-3, 0.01);
}

// 15/16·2 of 1 GiB in 5.43 ms on 16 GPUs of two nodes, each with eight NICs of 50 GB/s.
TEST(NewClusters, TakeTheLargestSizeAsTheRateOfNics) {
  const std::vector<std::pair<double, double>> rows = {{1048576.0, 80.0}, {1073741824.0, 5430.0}};
  const NewCluster made =
      make_cluster({.from = find_cluster("hgx-h200"),
                    .benches = {read_nccl_tests(
                        printed_table(rows), "a.txt",
                        {.collective = BenchedCollective::kAllReduce, .ranks = 16, .nodes = 2})}});
  const double rate = 2.0 * 15.0 / 16.0 * 1.073741824 / 5.43e-3;
  EXPECT_NEAR(made.cluster.nic.collective_efficiency.value_or(0.0), rate / 400.0, 1e-6);
  const GroupPlacement larger{.size = 64, .ranks_per_node = 8, .nodes = 8, .is_alone = true};
  EXPECT_NEAR(gigabytes_of(bus_bandwidth(larger, made.cluster)), rate, 0.01);
}

// The largest group says what groups of other sizes reach, in whatever order files are given.
TEST(NewClusters, TakeTheLargestGroupAsTheRateOfOthers) {
  const auto bench_of = [](int ranks, double us) {
    return read_nccl_tests(printed_table({{1048576.0, 20.0}, {268435456.0, us}}),
                           "g" + std::to_string(ranks),
                           {.collective = BenchedCollective::kAllGather, .ranks = ranks});
  };
  const auto made_of = [&](const std::vector<CollectiveBench>& benches) {
    return make_cluster({.from = find_cluster("dgx-h100"), .benches = benches}).cluster;
  };
  const ClusterSpec cluster = made_of({bench_of(8, 900.0), bench_of(2, 1000.0)});
  EXPECT_EQ(cluster.nvlink, made_of({bench_of(2, 1000.0), bench_of(8, 900.0)}).nvlink);
  const GroupPlacement whole{.size = 8, .ranks_per_node = 8};
  EXPECT_NEAR(gigabytes_of(bus_bandwidth(whole, cluster)), 0.875 * 0.268435456 / 900e-6, 0.01);
  EXPECT_THAT(error_of([&] {
                (void)made_of({bench_of(8, 900.0), bench_of(8, 950.0)});
              }),
              HasSubstr("all_gather of 8 GPUs on 1 node is in g8, too"));
}

// Switches that reduce speed up all-reduces of a whole node alone.
TEST(NewClusters, TakeAnAllReduceOfAWholeNodeAsThatOfItsSwitches) {
  const std::vector<std::pair<double, double>> rows = {{1048576.0, 40.0}, {1073741824.0, 4000.0}};
  const ClusterSpec from = find_cluster("dgx-h100");
  const ClusterSpec made =
      make_cluster(
          {.from = from,
           .benches = {read_nccl_tests(printed_table(rows), "a",
                                       {.collective = BenchedCollective::kAllReduce, .ranks = 8})}})
          .cluster;
  EXPECT_EQ(made.nvlink, from.nvlink);
  EXPECT_NEAR(gigabytes_of(made.nccl->nvls.bandwidth), 1.75 * 1.073741824 / 4e-3, 0.01);
}

TEST(NewClusters, SayWhereEachPartComesFrom) {
  const NewCluster made = make_cluster({.name = "mine", .from = find_cluster("dgx-h100")});
  EXPECT_THAT(to_text(made, "mine.json"), HasSubstr("--cluster mine.json"));
  EXPECT_THAT(made.cluster.source, HasSubstr("begins as dgx-h100"));
}

}  // namespace
}  // namespace ptdp
