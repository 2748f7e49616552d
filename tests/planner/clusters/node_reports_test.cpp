// What is read of a node: nvbandwidth, nvidia-smi's topology and report, Slurm's environment.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "planner/clusters/copy_rates.h"
#include "planner/clusters/node_list.h"
#include "planner/clusters/node_topology.h"
#include "planner/clusters/smi_report.h"
#include "tests/support/error_of.h"

namespace ptdp {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

double gigabytes(const std::optional<BytesPerSecond>& rate) {
  return rate ? rate->value() / kGiga : 0.0;
}

TEST(Nvbandwidth, GivesMeansOverPairs) {
  const CopyRates rates = read_nvbandwidth(
      "nvbandwidth Version: v0.6\n"
      "Device 0: NVIDIA H100 (00000009:01:00)\n\n"
      "Running host_to_device_memcpy_ce.\n"
      "memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)\n"
      "           0         1\n"
      " 0     55.00     57.00\n\n"
      "SUM host_to_device_memcpy_ce 112.00\n\n"
      "Running device_to_device_memcpy_read_ce.\n"
      "memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)\n"
      "           0         1\n"
      " 0       N/A    390.00\n"
      " 1    392.00      0.00\n\n"
      "Running host_device_latency_sm.\n"
      "memory latency SM CPU(row) <-> GPU(column) (ns)\n"
      "           0\n"
      " 0    772.58\n",
      "b.txt");
  EXPECT_DOUBLE_EQ(gigabytes(rates.host_to_device), 56.0);
  EXPECT_DOUBLE_EQ(gigabytes(rates.device_to_device), 391.0);
  EXPECT_FALSE(rates.device_to_host.has_value());
}

TEST(Nvbandwidth, IsReadFromJson) {
  const CopyRates rates = read_nvbandwidth(
      R"({"nvbandwidth": {"testcases": [
        {"name": "device_to_host_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.5"]]},
        {"name": "device_to_device_memcpy_write_ce", "status": "Passed",
         "bandwidth_matrix": [["N/A", "200.0"], ["210.0", "N/A"]]},
        {"name": "multicast", "status": "Waived"}]}})",
      "b.json");
  EXPECT_DOUBLE_EQ(gigabytes(rates.device_to_host), 55.5);
  EXPECT_DOUBLE_EQ(gigabytes(rates.device_to_device), 205.0);
}

TEST(Nvbandwidth, WithoutSuchCopiesIsRefused) {
  EXPECT_THAT(error_of([] { (void)read_nvbandwidth("Waived:\n", "b.txt"); }),
              HasSubstr("b.txt: expected nvbandwidth's"));
}

// The layout of `nvidia-smi topo -m` of driver 535; two tabs enclose an empty affinity.
const char* const kSwitchedNode =
    "\t\x1b[4mGPU0\tGPU1\tGPU2\tNIC0\tNIC1\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV18\tNV18\tPXB\tSYS\t0-55\t\tN/A\n"
    "GPU1\tNV18\t X \tNV18\tSYS\tPXB\t0-55\t0\tN/A\n"
    "GPU2\tNV18\tNV18\t X \tSYS\tSYS\t56-111\t1\tN/A\n"
    "NIC0\tPXB\tSYS\tSYS\t X \tSYS\n"
    "NIC1\tSYS\tPXB\tSYS\tSYS\t X \n"
    "\n"
    "Legend:\n"
    "  X    = Self\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n"
    "NIC Legend:\n"
    "  NIC0: mlx5_0\n"
    "  NIC1: mlx5_1\n";

TEST(Topology, GivesGpusLinksAndNics) {
  const NodeTopology node = read_topology(kSwitchedNode, "t.txt");
  EXPECT_EQ(node.gpus, 3);
  EXPECT_EQ(node.nvlinks, 18);
  EXPECT_EQ(node.links_of_gpu, 36);
  EXPECT_TRUE(node.is_joined);
  EXPECT_THAT(node.nics, ElementsAre("mlx5_0", "mlx5_1"));
  EXPECT_THAT(node.warnings, IsEmpty());
}

TEST(Topology, WarnsOfALinkThatIsDown) {
  std::string text = kSwitchedNode;
  for (const char* cell : {"\tNV18\tNV18\tPXB", "NV18\t X \tNV18\tSYS"}) {
    text.replace(text.find(cell), std::string("\tNV18").size() - (cell[0] == 'N' ? 1U : 0U),
                 cell[0] == 'N' ? "NV16" : "\tNV16");
  }
  const NodeTopology node = read_topology(text, "t.txt");
  EXPECT_EQ(node.nvlinks, 18);
  EXPECT_THAT(node.warnings, ElementsAre(HasSubstr("1 of 3 pairs of GPUs have NV16, others NV18")));
}

TEST(Topology, OfBridgesJoinsPairsAlone) {
  const NodeTopology node = read_topology(
      "\tGPU0\tGPU1\tGPU2\tGPU3\nGPU0\tX\tNV4\tSYS\tSYS\nGPU1\tNV4\tX\tSYS\tSYS\n"
      "GPU2\tSYS\tSYS\tX\tNV4\nGPU3\tSYS\tSYS\tNV4\tX\n",
      "t");
  EXPECT_EQ(node.nvlinks, 4);
  EXPECT_EQ(node.links_of_gpu, 4);
  EXPECT_EQ(node.pairs_over_pcie, 4);
  EXPECT_FALSE(node.is_joined);
}

TEST(Topology, CountsNoLinksThatThereAreNot) {
  for (const char* cell : {"NV-5", "NV999999999", "NV", "NV0"}) {
    const std::string text = std::string("GPU0 X ") + cell + "\nGPU1 " + cell + " X\n";
    EXPECT_EQ(read_topology(text, "t").nvlinks, 0) << cell;
  }
}

TEST(Topology, OfOneGpuAndOfPcieHasNoLinks) {
  EXPECT_EQ(read_topology("        GPU0    CPU    Affinity\nGPU0     X      0-15\n", "t").gpus, 1);
  const NodeTopology node =
      read_topology("\tGPU0\tGPU1\tmlx5_0\nGPU0\tX\tPHB\tSYS\nGPU1\tPHB\tX\tSYS\n", "t");
  EXPECT_EQ(node.nvlinks, 0);
  EXPECT_EQ(node.pairs_over_pcie, 1);
  EXPECT_FALSE(node.is_joined);
  EXPECT_THAT(node.nics, ElementsAre("mlx5_0"));
  EXPECT_THAT(error_of([] { (void)read_topology("no GPUs\n", "t.txt"); }),
              HasSubstr("t.txt: expected the rows of GPUs"));
}

std::string smi_of(const std::string& readings) {
  return "<?xml version=\"1.0\" ?>\n<!DOCTYPE nvidia_smi_log SYSTEM \"nvsmi_device_v12.dtd\">\n"
         "<nvidia_smi_log><attached_gpus>2</attached_gpus>"
         "<gpu id=\"1\"><product_name>NVIDIA H100 80GB HBM3</product_name>"
         "<product_architecture>Hopper</product_architecture>"
         "<mig_mode><current_mig>Disabled</current_mig></mig_mode>"
         "<pci><pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen></pcie_gen>"
         "<link_widths><max_link_width>16x</max_link_width></link_widths></pci_gpu_link_info></pci>"
         "<fb_memory_usage><total>81559 MiB</total></fb_memory_usage>" +
         readings +
         "</gpu><gpu id=\"2\"><product_name>NVIDIA H100 80GB HBM3</product_name>"
         "<mig_mode><current_mig>Enabled</current_mig></mig_mode></gpu></nvidia_smi_log>\n";
}

TEST(SmiReports, GiveGpuMemoryAndPower) {
  const SmiReport report = read_smi_report(
      smi_of("<gpu_power_readings><current_power_limit>500.00 W</current_power_limit>"
             "<default_power_limit>700.00 W</default_power_limit></gpu_power_readings>"),
      "smi.xml");
  EXPECT_EQ(report.product, "NVIDIA H100 80GB HBM3");
  EXPECT_EQ(report.gpus, 2);
  EXPECT_DOUBLE_EQ(report.memory.value(), 81559.0 * 1024 * 1024);
  EXPECT_EQ(report.power_limit_watts, 500.0);
  EXPECT_THAT(report.warnings,
              ElementsAre(HasSubstr("MIG is on for GPU 1"), HasSubstr("limited to 500 of 700 W")));
  // 16 lanes of 32 GT/s with 128b/130b.
  EXPECT_NEAR(gigabytes(pcie_bandwidth(report.pcie_generation, report.pcie_lanes)), 63.0, 0.1);
}

TEST(SmiReports, OfOldDriversGiveTheirPowerToo) {
  const SmiReport report = read_smi_report(
      smi_of("<power_readings><power_limit>700.00 W</power_limit>"
             "<default_power_limit>700.00 W</default_power_limit></power_readings>"),
      "smi.xml");
  EXPECT_EQ(report.usual_limit_watts, 700.0);
}

TEST(SmiReports, OfMemoryThatNoGpuHasAreRefused) {
  for (const char* memory : {"nan MiB", "-5 MiB", "1 MiB", "1e300 MiB", "N/A"}) {
    std::string text = smi_of("");
    text.replace(text.find("81559 MiB"), 9, memory);
    EXPECT_THAT(error_of([&] { (void)read_smi_report(text, "smi.xml"); }),
                HasSubstr("smi.xml: gpu: expected a product_name, and memory"))
        << memory;
  }
}

TEST(SmiReports, OfAnotherKindAreRefused) {
  EXPECT_THAT(error_of([] { (void)read_smi_report("<nvidia_smi_log><gpu>", "smi.xml"); }),
              HasSubstr("smi.xml: expected the XML"));
  EXPECT_THAT(error_of([] { (void)read_smi_report("<other/>", "smi.xml"); }),
              HasSubstr("smi.xml: expected nvidia_smi_log with a gpu"));
  EXPECT_THAT(
      error_of([] { (void)read_smi_report("<nvidia_smi_log><gpu/></nvidia_smi_log>", "smi.xml"); }),
      HasSubstr("product_name"));
}

TEST(NodeLists, AreExpandedAsSlurmDoes) {
  EXPECT_THAT(expand_node_list("node[001-003,007],login1", "x"),
              ElementsAre("node001", "node002", "node003", "node007", "login1"));
  EXPECT_THAT(expand_node_list("r[1-2]n[09-10]", "x"),
              ElementsAre("r1n09", "r1n10", "r2n09", "r2n10"));
  for (const char* list : {"node[1-", "node[3-1]", "node[a-b]", "", "a,,b", "n]1", "n[1-9999999]",
                           "n[2147483647]", "n[1-600000],m[1-600000]"}) {
    EXPECT_THAT(error_of([&] { (void)expand_node_list(list, "SLURM_JOB_NODELIST"); }),
                HasSubstr("SLURM_JOB_NODELIST: expected nodes as Slurm writes them"))
        << list;
  }
}

TEST(SlurmJobs, AreReadFromTheEnvironment) {
  const auto reader = [](const std::map<std::string, std::string>& variables) {
    return [variables](const std::string& name) {
      const auto found = variables.find(name);
      return found != variables.end() ? std::optional(found->second) : std::nullopt;
    };
  };
  const SlurmJob job =
      read_slurm_job(reader({{"SLURM_JOB_NODELIST", "n[1-16]"}, {"SLURM_GPUS_ON_NODE", "4"}}));
  EXPECT_EQ(job.nodes, 16);
  EXPECT_EQ(job.gpus_per_node, 4);
  EXPECT_EQ(read_slurm_job(reader({{"SLURM_JOB_NUM_NODES", "3"}})).nodes, 3);
  EXPECT_EQ(
      read_slurm_job(reader({{"SLURM_JOB_NODELIST", ""}, {"SLURM_JOB_NUM_NODES", "3"}})).nodes, 3);
  EXPECT_THAT(error_of([&] { (void)read_slurm_job(reader({})); }), HasSubstr("--slurm"));
  EXPECT_THAT(error_of([&] {
                (void)read_slurm_job(reader({{"SLURM_GPUS_ON_NODE", "0"}}));
              }),
              HasSubstr("SLURM_GPUS_ON_NODE: expected a whole number from 1, got \"0\""));
}

}  // namespace
}  // namespace ptdp
