// Tests of clusters, GPUs and links: what they compute, and how they are read and refused.
#include "cost_model/inputs/cluster_spec.h"

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/text/object_writer.h"
#include "tests/support/round_trip.h"
#include "tests/support/temporary_directory.h"
#include "tests/support/thrown.h"

namespace ptdp {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

MeasuredCurve two_points() {
  return {{MeasuredPoint{.size = Bytes(1e6), .time = microseconds(44.21)},
           MeasuredPoint{.size = Bytes(2e6), .time = microseconds(53.43)}},
          "test"};
}

/// Returns a GPU whose every field differs from its default.
GpuSpec unusual_gpu() {
  const AttentionRate rate = {.kernel = "flash-2",
                              .head_width = 96,
                              .forward = 0.5,
                              .backward = 0.4,
                              .half_rate_length = 430.0,
                              .backward_half_rate_length = 840.0,
                              .start = microseconds(1.25)};
  const LowBitProducts products = {.format = LowBitFormat::kNvfp4,
                                   .efficiency = 0.35,
                                   .sustained = 0.65,
                                   .startup_depth = 200.0,
                                   .start = microseconds(6.5),
                                   .cast_efficiency = 0.55};
  return {.name = "g",
          .source = "a test",
          .constants_of = "h",
          .is_assumed = true,
          .peak_fp16 = teraflops(100.0),
          .peak_bf16 = teraflops(50.0),
          .peak_fp32 = teraflops(25.5),
          .peak_tf32 = teraflops(26.5),
          .peak_fp64 = teraflops(12.5),
          .peak_fp8 = teraflops(200.0),
          .peak_fp4 = teraflops(400.0),
          .memory = gibibytes(40.0),
          .memory_bandwidth = gigabytes_per_second(1500.5),
          .num_multiprocessors = 99,
          .matmul_efficiency = 0.9,
          .matmul_sustained = 0.75,
          .card_spread = 0.0125,
          .matmul_start = microseconds(1.5),
          .matmul_startup_depth = 100.0,
          .matmul_output_depth = 30.0,
          .matmul_wave_overlap = 0.25,
          .fp8_matmul_efficiency = 0.45,
          .low_bit_products = {products},
          .fp8_any_layout = true,
          .fp8_mx = true,
          .matmul_tile = MatmulTile{.rows = 12, .columns = 32},
          .matmul_memory_efficiency = 0.8,
          .memory_efficiency = 0.7,
          .cast_efficiency = 0.85,
          .cast_start = microseconds(0.75),
          .kernel_latency = microseconds(2.5),
          .attention_rates = {rate},
          .measured_operations = {
              MeasuredOperation(DeviceOperation::kAttention, Precision::kFp64,
                                {{.sizes = {8, 64, 32}, .time = microseconds(1.5)},
                                 {.sizes = {16, 64, 32}, .time = microseconds(3.25)}},
                                "test")}};
}

/// Returns NCCL settings whose every field differs from its default.
NcclSpec unusual_nccl() {
  return {
      .compute_capability = 90,
      .cpu = CpuVendor::kAmd,
      .node_link = NodeLink::kPci,
      .channels = 16,
      .channels_per_nic = 2,
      .nvls = {.channels = 12, .bandwidth = gigabytes_per_second(480.0), .ramp = microseconds(7.5)},
      .nic_latency = microseconds(5.0),
      .launch = microseconds(13.0),
      .ramp = microseconds(2.5),
      .simple_ramp = microseconds(0.75),
      .group_rates = {{.gpus = 2, .share = 0.625}, {.gpus = 4, .share = 0.875}},
      .enabled = {.algorithms = {false, true, true, false, false},
                  .protocols = {true, false, true}}};
}

/// Returns a cluster whose every field differs from its default.
ClusterSpec unusual_cluster() {
  return {.name = "x",
          .source = "a test",
          .default_stack = "some-stack",
          .gpu = unusual_gpu(),
          .gpus_per_node = 4,
          .gpus_per_tray = 2,
          .nvlink = {.bandwidth = gigabytes_per_second(300.0),
                     .efficiency = 0.77,
                     .hop_latency = microseconds(3.4)},
          .nic = {.bandwidth = gigabytes_per_second(25.0),
                  .efficiency = 0.74,
                  .collective_efficiency = 0.96,
                  .sibling_efficiency = 0.5,
                  .hop_latency = microseconds(14.0)},
          .collective_launch = microseconds(18.0),
          .all_reduce_curves = {AllReduceCurve{.ranks = 2, .curve = two_points()},
                                AllReduceCurve{.ranks = 8, .nodes = 2, .curve = two_points()}},
          .reduce_scatter_curves = {AllReduceCurve{.ranks = 4, .curve = two_points()}},
          .all_gather_curves = {AllReduceCurve{.ranks = 16, .curve = two_points()}},
          .message_curve = two_points(),
          .nccl = unusual_nccl(),
          .nccl_within_node =
              NcclSpec{.compute_capability = 100, .channels = 24, .launch = microseconds(4.0)},
          .all_reduce_across_nodes = AllReduceAcrossNodes::kFaster,
          .host = HostSpec{.memory = Bytes(64.0 * 1024 * 1024 * 1024),
                           .memory_bandwidth = BytesPerSecond(50e9),
                           .link_bandwidth = BytesPerSecond(25e9)},
          .network_tiers = {NetworkTier{.gpus = 16, .oversubscription = 1.0},
                            NetworkTier{.gpus = 4096, .oversubscription = 7.0}},
          .cores_per_node = 8,
          .launch_slowdown = 1.75,
          .busy_cores = {{.cores = 2, .matmul = 1.25, .skew = 0.5},
                         {.cores = 8, .attention = 1.5, .memory_bound = 3.5, .optimizer = 4.5}},
          .time_factors = {
              .matmul = 1.25, .attention = 1.375, .memory_bound = 1.625, .communication = 0.5}};
}

std::string refusal_of_cluster(const std::string& from, const std::string& to) {
  return message_of(
      [&] { return parse<ClusterSpec>(replaced(dump(unusual_cluster()), from, to)); });
}

// Returns the JSON of a GPU that is given by name: {"name": ..., ..., "attention_rates": [...]}.
std::string with_gpu_name(const std::string& name) {
  const std::string text = dump(unusual_cluster());
  const std::size_t start = text.find("{\n    \"name\"");
  const std::size_t end = text.find("},\n  \"gpus_per_node\"");
  EXPECT_NE(start, std::string::npos);
  EXPECT_NE(end, std::string::npos);
  return text.substr(0, start) + '"' + name + '"' + text.substr(end + 1);
}

TEST(ClusterSpec, RefusesCoresThatDoNotGrowOrThatAreMoreThanThereAre) {
  EXPECT_THAT(refusal_of_cluster("\"cores\": 2", "\"cores\": 8"),
              HasSubstr("expected numbers of cores that grow, from more than 8 to 8, got 8"));
  EXPECT_THAT(refusal_of_cluster("\"cores_per_node\": 8", "\"cores_per_node\": 4"),
              HasSubstr("got 8"));
  EXPECT_THAT(refusal_of_cluster("\"skew\": 0.5", "\"skew\": -1"), HasSubstr("skew"));
  EXPECT_THAT(refusal_of_cluster("\"optimizer\": 4.5", "\"optimizer\": 0"), HasSubstr("optimizer"));
}

TEST(GpuSpec, RefusesMeasuredOperationsOfWhatItCannotDo) {
  EXPECT_EQ(refusal_of_cluster("\"peak_fp64_TFLOPs\": 12.5,", ""),
            "test.json: gpu.measured_operations: attention in fp64, of which the GPU has no peak");
}

TEST(GpuSpec, RefusesTwoTablesOfOneOperation) {
  ClusterSpec cluster = unusual_cluster();
  cluster.gpu.measured_operations.push_back(cluster.gpu.measured_operations.front());
  EXPECT_EQ(message_of([&] { return parse<ClusterSpec>(dump(cluster)); }),
            "test.json: gpu.measured_operations: attention in fp64 twice");
  cluster.gpu.measured_operations.back() =
      MeasuredOperation(DeviceOperation::kAttention, Precision::kFp32,
                        cluster.gpu.measured_operations.front().points(), "test");
  EXPECT_EQ(parse<ClusterSpec>(dump(cluster)), cluster);
}

TEST(GpuSpecJson, NamesLowBitProductsOnceAndWithAPeak) {
  ClusterSpec cluster = unusual_cluster();
  cluster.gpu.low_bit_products.push_back(cluster.gpu.low_bit_products.front());
  EXPECT_EQ(message_of([&] { return parse<ClusterSpec>(dump(cluster)); }),
            "test.json: gpu.low_bit_products: nvfp4 twice");
  cluster = unusual_cluster();
  cluster.gpu.peak_fp4 = FlopsPerSecond(0.0);
  EXPECT_EQ(message_of([&] { return parse<ClusterSpec>(dump(cluster)); }),
            "test.json: gpu.low_bit_products: nvfp4, of which the GPU has no peak");
}

TEST(GpuSpec, RefusesTwoRatesOfOneKernelForHeadsOfOneWidth) {
  ClusterSpec cluster = unusual_cluster();
  AttentionRate rate = cluster.gpu.attention_rates.front();
  rate.head_width = 0;
  cluster.gpu.attention_rates.push_back(rate);
  EXPECT_EQ(parse<ClusterSpec>(dump(cluster)), cluster);
  cluster.gpu.attention_rates.push_back(rate);
  EXPECT_EQ(message_of([&] { return parse<ClusterSpec>(dump(cluster)); }),
            "test.json: gpu.attention_rates: flash-2 for heads of any width twice");
  cluster.gpu.attention_rates.pop_back();
  cluster.gpu.attention_rates.back().head_width = 96;
  EXPECT_EQ(message_of([&] { return parse<ClusterSpec>(dump(cluster)); }),
            "test.json: gpu.attention_rates: flash-2 for heads of 96 twice");
}

TEST(GpuSpec, HasAPeakForEachPrecision) {
  EXPECT_EQ(unusual_cluster().gpu.peak(Precision::kFp16), teraflops(100.0));
  EXPECT_EQ(unusual_cluster().gpu.peak(Precision::kBf16), teraflops(50.0));
  EXPECT_EQ(unusual_cluster().gpu.peak(Precision::kFp32), teraflops(25.5));
  EXPECT_EQ(unusual_cluster().gpu.peak(Precision::kFp64), teraflops(12.5));
}

// NVIDIA's V100 data sheet: tensor cores for fp16 only.
TEST(GpuSpec, OfAV100HasNoBf16) {
  EXPECT_EQ(find_gpu("v100-32gb-sxm2").peak(Precision::kBf16), FlopsPerSecond(0.0));
  EXPECT_EQ(find_gpu("v100-32gb-sxm2").peak(Precision::kFp64), FlopsPerSecond(0.0));
}

TEST(LinkSpec, ReachesAFractionOfItsRate) {
  EXPECT_DOUBLE_EQ(unusual_cluster().nvlink.effective_bandwidth().value(), 231e9);  // 300·0.77
}

TEST(LinkSpec, ReachesAnotherFractionInCollectivesWhereOneIsGiven) {
  EXPECT_DOUBLE_EQ(unusual_cluster().nic.collective_bandwidth().value(), 24e9);  // 25·0.96
  EXPECT_EQ(unusual_cluster().nvlink.collective_bandwidth(),
            unusual_cluster().nvlink.effective_bandwidth());
}

TEST(LinkSpec, ReachesAThirdFractionBesideOtherGroupsWhereOneIsGiven) {
  ClusterSpec cluster = unusual_cluster();
  EXPECT_DOUBLE_EQ(cluster.nic.sibling_bandwidth().value(), 12.5e9);  // 25·0.5
  cluster.nic.sibling_efficiency.reset();
  EXPECT_DOUBLE_EQ(cluster.nic.sibling_bandwidth().value(), 24e9);
}

TEST(ClusterSpec, ReachesAsFarAsItsHighestTier) {
  EXPECT_EQ(unusual_cluster().max_gpus(), 4096);
  EXPECT_EQ(ClusterSpec{}.max_gpus(), 0);
}

TEST(ClusterSpecJson, ReadsBackAsItWas) {
  const std::string text = dump(unusual_cluster());
  EXPECT_EQ(parse<ClusterSpec>(text), unusual_cluster()) << text;
  EXPECT_EQ(dump(parse<ClusterSpec>(text)), text);
}

TEST(ClusterSpecJson, HasEveryFieldUnderItsName) {
  const std::string text = dump(unusual_cluster());
  for (const char* part : {R"({
  "name": "x",
  "source": "a test",
  "default_stack": "some-stack",
  "gpu": {
    "name": "g",
    "source": "a test",
    "constants_of": "h",
    "is_assumed": true,
    "peak_fp16_TFLOPs": 100.0,
    "peak_bf16_TFLOPs": 50.0,
    "peak_fp32_TFLOPs": 25.5,
    "peak_tf32_TFLOPs": 26.5,
    "peak_fp64_TFLOPs": 12.5,
    "peak_fp8_TFLOPs": 200.0,
    "peak_fp4_TFLOPs": 400.0,
    "fp8_any_layout": true,
    "fp8_mx": true,
    "memory_GiB": 40.0,
    "memory_bandwidth_GBps": 1500.5,
    "num_multiprocessors": 99,
    "matmul_efficiency": 0.9,
    "fp8_matmul_efficiency": 0.45,
    "low_bit_products": [
      {
        "format": "nvfp4",
        "efficiency": 0.35,
        "sustained": 0.65,
        "startup_depth": 200.0,
        "start_us": 6.5,
        "cast_efficiency": 0.55
      }
    ],
    "matmul_sustained": 0.75,
    "card_spread": 0.0125,
    "matmul_start_us": 1.5,
    "matmul_startup_depth": 100.0,
    "matmul_output_depth": 30.0,
    "matmul_wave_overlap": 0.25,
    "matmul_tile": {
      "rows": 12,
      "columns": 32
    },
    "matmul_memory_efficiency": 0.8,
    "memory_efficiency": 0.7,
    "cast_efficiency": 0.85,
    "cast_start_us": 0.75,
    "kernel_latency_us": 2.5,
    "attention_rates": [
      {
        "kernel": "flash-2",
        "head_width": 96,
        "forward": 0.5,
        "backward": 0.4,
        "half_rate_length": 430.0,
        "backward_half_rate_length": 840.0,
        "start_us": 1.25
      }
    ],
)",
                           R"(  "gpus_per_node": 4,
  "gpus_per_tray": 2,
  "nvlink": {
    "bandwidth_GBps": 300.0,
    "efficiency": 0.77,
    "hop_latency_us": 3.4
  },
  "nic": {
    "bandwidth_GBps": 25.0,
    "efficiency": 0.74,
    "collective_efficiency": 0.96,
    "sibling_efficiency": 0.5,
    "hop_latency_us": 14.0
  },
  "collective_launch_us": 18.0,
  "all_reduce_curves": [
    {
      "ranks": 2,
      "points": [
        {
          "bytes": 1000000.0,
          "time_us": 44.21
        },
        {
          "bytes": 2000000.0,
          "time_us": 53.43
        }
      ]
    },
    {
      "ranks": 8,
      "nodes": 2,
)",
                           "\"reduce_scatter_curves\": [\n    {\n      \"ranks\": 4,",
                           "\"all_gather_curves\": [\n    {\n      \"ranks\": 16,",
                           "\"message_curve\": [\n    {\n      \"bytes\": 1000000.0,",
                           R"(  "nccl": {
    "compute_capability": 90,
    "cpu_vendor": "amd",
    "node_link": "pci",
    "channels": 16,
    "channels_per_nic": 2,
    "nvls": {
      "channels": 12,
      "bandwidth_GBps": 480.0,
      "ramp_us": 7.5
    },
    "nic_latency_us": 5.0,
    "launch_us": 13.0,
    "ramp_us": 2.5,
    "simple_ramp_us": 0.75,
    "group_rates": [
      {
        "gpus": 2,
        "share": 0.625
      },
      {
        "gpus": 4,
        "share": 0.875
      }
    ],
    "algorithms": [
      "ring",
      "nvls"
    ],
    "protocols": [
      "ll",
      "simple"
    ]
  },
  "nccl_within_node": {
    "compute_capability": 100,
    "cpu_vendor": "intel",
    "channels": 24,
    "launch_us": 4.0,
    "ramp_us": 0.0
  },
  "all_reduce_across_nodes": "faster",
  "host": {
    "memory_GiB": 64.0,
    "memory_bandwidth_GBps": 50.0,
    "link_GBps": 25.0
  },
  "network_tiers": [
    {
      "gpus": 16,
      "oversubscription": 1.0
    },
    {
      "gpus": 4096,
      "oversubscription": 7.0
    }
  ],
  "cores_per_node": 8,
  "launch_slowdown": 1.75,
  "busy_cores": [
    {
      "cores": 2,
      "matmul": 1.25,
      "attention": 1.0,
      "memory_bound": 1.0,
      "optimizer": 1.0,
      "skew": 0.5
    },
    {
      "cores": 8,
      "matmul": 1.0,
      "attention": 1.5,
      "memory_bound": 3.5,
      "optimizer": 4.5,
      "skew": 0.0
    }
  ],
  "time_factors": {
    "matmul": 1.25,
    "attention": 1.375,
    "memory_bound": 1.625,
    "communication": 0.5
  }
})"}) {
    EXPECT_THAT(text, HasSubstr(part));
  }
  ClusterSpec by_levels = unusual_cluster();
  by_levels.all_reduce_across_nodes = AllReduceAcrossNodes::kHierarchical;
  by_levels.nccl->cpu = CpuVendor::kOther;
  by_levels.nccl->enabled = {.algorithms = {true, true, false, true, true},
                             .protocols = {false, true, false}};
  for (const char* part : {R"("all_reduce_across_nodes": "hierarchical")",
                           R"("cpu_vendor": "other")", R"("algorithms": [
      "tree",
      "ring",
      "nvls-tree",
      "pat"
    ],
    "protocols": [
      "ll128"
    ])"}) {
    EXPECT_THAT(dump(by_levels), HasSubstr(part));
  }
  EXPECT_EQ(parse<ClusterSpec>(dump(by_levels)), by_levels);
}

// Each optional part is left out by itself, as in a cluster file that gives some parts and not
// others.
TEST(ClusterSpecJson, ReadsBackWithoutAnyOneOfItsParts) {
  using Change = std::function<void(ClusterSpec&)>;
  const std::vector<Change> changes = {
      [](ClusterSpec& cluster) { cluster.gpu.fp8_any_layout = false; },
      [](ClusterSpec& cluster) { cluster.gpu.fp8_mx = false; },
      [](ClusterSpec& cluster) { cluster.gpu.peak_fp8 = FlopsPerSecond(0.0); },
      [](ClusterSpec& cluster) {
        cluster.gpu.low_bit_products.clear();
        cluster.gpu.peak_fp4 = FlopsPerSecond(0.0);
      },
      [](ClusterSpec& cluster) { cluster.gpu.low_bit_products.clear(); },
      [](ClusterSpec& cluster) { cluster.gpu.low_bit_products.front().sustained.reset(); },
      [](ClusterSpec& cluster) { cluster.gpu.low_bit_products.front().cast_efficiency.reset(); },
      [](ClusterSpec& cluster) { cluster.gpu.constants_of.clear(); },
      [](ClusterSpec& cluster) { cluster.gpu.matmul_sustained = 1.0; },
      [](ClusterSpec& cluster) { cluster.gpu.card_spread = 0.0; },
      [](ClusterSpec& cluster) { cluster.gpu.matmul_start = Seconds(0.0); },
      [](ClusterSpec& cluster) { cluster.gpu.cast_efficiency.reset(); },
      [](ClusterSpec& cluster) { cluster.gpu.cast_start.reset(); },
      [](ClusterSpec& cluster) { cluster.gpu.attention_rates.front().head_width = 0; },
      [](ClusterSpec& cluster) { cluster.gpu.attention_rates.front().half_rate_length = 0.0; },
      [](ClusterSpec& cluster) {
        cluster.gpu.attention_rates.front().backward_half_rate_length = std::nullopt;
      },
      [](ClusterSpec& cluster) { cluster.gpu.attention_rates.front().start = Seconds(0.0); },
      [](ClusterSpec& cluster) { cluster.gpu.fp8_matmul_efficiency.reset(); },
      [](ClusterSpec& cluster) { cluster.gpus_per_tray = 0; },
      [](ClusterSpec& cluster) { cluster.reduce_scatter_curves.clear(); },
      [](ClusterSpec& cluster) { cluster.all_gather_curves.clear(); },
      [](ClusterSpec& cluster) { cluster.message_curve = {}; },
      [](ClusterSpec& cluster) { cluster.nccl->nvls = {}; },
      [](ClusterSpec& cluster) { cluster.nccl->nvls.ramp.reset(); },
      [](ClusterSpec& cluster) { cluster.nccl->simple_ramp = Seconds(0.0); },
      [](ClusterSpec& cluster) { cluster.nccl->group_rates.clear(); },
      [](ClusterSpec& cluster) { cluster.nccl_within_node.reset(); },
      [](ClusterSpec& cluster) { cluster.nccl->nic_latency = Seconds(0.0); },
      [](ClusterSpec& cluster) { cluster.nccl->node_link = NodeLink::kNvlink; },
      [](ClusterSpec& cluster) { cluster.host.reset(); },
      [](ClusterSpec& cluster) { cluster.launch_slowdown = 1.0; },
      [](ClusterSpec& cluster) { cluster.busy_cores.clear(); },
      [](ClusterSpec& cluster) {
        cluster.busy_cores.clear();
        cluster.cores_per_node.reset();
      },
      [](ClusterSpec& cluster) { cluster.time_factors = {}; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    ClusterSpec cluster = unusual_cluster();
    changes[i](cluster);
    EXPECT_EQ(parse<ClusterSpec>(dump(cluster)), cluster) << "change " << i;
    EXPECT_LT(dump(cluster).size(), dump(unusual_cluster()).size()) << "change " << i;
  }
}

TEST(ClusterSpecJson, RefusesBusyCoresOfNodesWhoseCoresAreNotCounted) {
  EXPECT_EQ(refusal_of_cluster("\"cores_per_node\": 8,", ""),
            "test.json: busy_cores: expected cores_per_node beside it");
  EXPECT_EQ(refusal_of_cluster("\"cores_per_node\": 8", "\"cores_per_node\": 7"),
            "test.json: busy_cores: expected numbers of cores that grow, from more than 2 to 7, "
            "got 8");
}

TEST(ClusterSpecJson, LeavesOutWhatIsNotKnown) {
  ClusterSpec plain = unusual_cluster();
  plain.gpu.peak_bf16 = FlopsPerSecond(0.0);
  plain.gpu.peak_fp32 = FlopsPerSecond(0.0);
  plain.gpu.peak_tf32 = FlopsPerSecond(0.0);
  plain.gpu.peak_fp64 = FlopsPerSecond(0.0);
  plain.gpu.measured_operations.clear();
  plain.gpu.attention_rates.clear();
  plain.gpu.matmul_tile.reset();
  plain.all_reduce_curves.clear();
  plain.network_tiers.clear();
  plain.nic.collective_efficiency.reset();
  plain.nic.sibling_efficiency.reset();
  plain.nccl.reset();
  plain.nccl_within_node.reset();
  plain.all_reduce_across_nodes = AllReduceAcrossNodes::kFlat;
  const std::string text = dump(plain);
  for (const std::string key :
       {"peak_bf16_TFLOPs", "peak_fp32_TFLOPs", "peak_tf32_TFLOPs", "peak_fp64_TFLOPs",
        "attention_rates", "matmul_tile", "all_reduce_curves", "network_tiers", "nccl",
        "collective_efficiency", "sibling_efficiency", "all_reduce_across_nodes"}) {
    EXPECT_THAT(text, testing::Not(HasSubstr(key)));
  }
  EXPECT_EQ(parse<ClusterSpec>(text), plain);
}

TEST(ClusterSpecJson, LeavesOutWhatIsUsualOfNccl) {
  ClusterSpec cluster = unusual_cluster();
  cluster.nccl = NcclSpec{.compute_capability = 80, .channels = 24, .channels_per_nic = 2};
  const std::string text = dump(cluster);
  for (const std::string key : {"node_link", "nvls", "nic_latency_us", "simple_ramp_us",
                                "group_rates", "algorithms", "protocols"}) {
    EXPECT_THAT(text, testing::Not(HasSubstr(key)));
  }
  EXPECT_EQ(parse<ClusterSpec>(text), cluster);
}

TEST(ClusterSpecJson, RefusesARateOfSiblingsWithinANode) {
  EXPECT_EQ(refusal_of_cluster(R"("efficiency": 0.77,)",
                               R"("efficiency": 0.77, "sibling_efficiency": 0.5,)"),
            "test.json: nvlink: expected no sibling_efficiency, which only a nic has");
}

TEST(ClusterSpecJson, RefusesAnNcclWithoutRings) {
  EXPECT_EQ(
      refusal_of_cluster(R"("ring",)", ""),
      "test.json: nccl.algorithms: expected \"ring\" among them, the only one for every group "
      "and collective");
}

TEST(ClusterSpecJson, RefusesAnNcclWithoutAnyOfItsWays) {
  for (const std::string key : {"algorithms", "protocols"}) {
    EXPECT_EQ(refusal_of_cluster('"' + key + "\": [", '"' + key + "\": [], \"rest\": ["),
              "test.json: nccl." + key + ": expected at least one");
  }
}

TEST(ClusterSpecJson, RefusesAnNcclThatDoesNotKnowItsGroups) {
  EXPECT_EQ(refusal_of_cluster("\"gpus\": 4", "\"gpus\": 2"),
            "test.json: nccl.group_rates: expected numbers of GPUs that grow, got 2");
  EXPECT_EQ(refusal_of_cluster("\"channels_per_nic\": 2,", ""),
            "test.json: nccl: expected channels_per_nic in it, which only nccl_within_node can do "
            "without");
}

TEST(ClusterSpecJson, RefusesAnUnknownKeyOfNccl) {
  EXPECT_THAT(refusal_of_cluster("\"launch_us\"", "\"ramp\": 1, \"launch_us\""),
              StartsWith("test.json: nccl.\"ramp\": unknown key"));
}

TEST(ClusterSpecJson, TellsCurvesOfOneSizeApartByTheirNodes) {
  EXPECT_EQ(refusal_of_cluster("\"ranks\": 8,\n      \"nodes\": 2,",
                               "\"ranks\": 2,\n      \"nodes\": 1,"),
            "test.json: all_reduce_curves: two curves of 2 ranks on 1 nodes");
  EXPECT_EQ(refusal_of_cluster("\"nodes\": 2", "\"nodes\": 3"),
            "test.json: all_reduce_curves: 8 ranks are not equally many on 3 nodes");
}

TEST(ClusterSpecJson, TakesTheNameOfAShippedGpu) {
  EXPECT_EQ(parse<ClusterSpec>(with_gpu_name("a100-80gb-sxm")).gpu, find_gpu("a100-80gb-sxm"));
}

TEST(ClusterSpecJson, RefusesTheNameOfAGpuThatIsNotShipped) {
  EXPECT_THAT(
      message_of([] { return parse<ClusterSpec>(with_gpu_name("a100-80gb-sxn")); }),
      StartsWith("test.json: gpu: unknown GPU \"a100-80gb-sxn\"; did you mean \"a100-80gb-sxm\""));
}

TEST(ClusterSpecJson, RefusesAPathOfAGpuThatIsNoJson) {
  EXPECT_THAT(message_of([] { return parse<ClusterSpec>(with_gpu_name("../gpu")); }),
              StartsWith("test.json: gpu: expected a name of letters, digits and . _ + -"));
}

TEST(ClusterSpecJson, TakesTheFileOfAGpuBesideItself) {
  const TemporaryDirectory directory;
  ObjectWriter gpu;
  gpu.schema("ptdp.gpu/1");
  describe(gpu, find_gpu("h800-80gb-sxm"));
  (void)directory.file("gpu.json", gpu.dump());
  const std::filesystem::path cluster = directory.file("cluster.json", with_gpu_name("gpu.json"));
  ObjectReader reader = ObjectReader::from_file(cluster);
  ClusterSpec read;
  describe(reader, read);
  EXPECT_EQ(read.gpu, find_gpu("h800-80gb-sxm"));
}

TEST(ClusterSpecJson, TakesAGpuThatWasPastedWithItsSchema) {
  const std::string text =
      replaced(dump(unusual_cluster()), R"("name": "g")", R"("schema": "ptdp.gpu/1", "name": "g")");
  EXPECT_EQ(parse<ClusterSpec>(text), unusual_cluster());
}

TEST(ClusterSpecJson, TakesTheNameOfShippedCurves) {
  ClusterSpec cluster = unusual_cluster();
  cluster.all_reduce_curves.clear();
  const std::string text = replaced(dump(cluster), "\"network_tiers\"",
                                    R"("all_reduce_curves": "a100-nvswitch", "network_tiers")");
  EXPECT_EQ(parse<ClusterSpec>(text).all_reduce_curves, find_all_reduce_curves("a100-nvswitch"));
}

TEST(ClusterSpecJson, RefusesTiersThatDoNotGrow) {
  EXPECT_EQ(refusal_of_cluster("\"gpus\": 4096", "\"gpus\": 16"),
            "test.json: network_tiers: expected tiers that grow, from more than 16 GPUs, got one "
            "of 16");
  EXPECT_EQ(refusal_of_cluster("\"gpus\": 16,", "\"gpus\": 4,"),
            "test.json: network_tiers: expected tiers that grow, from more than 4 GPUs, got one of "
            "4");
}

// An upper tier must have at least as many times the rate as the tier below.
TEST(ClusterSpecJson, RefusesATierWithMoreOfTheRateThanOneBelow) {
  EXPECT_EQ(refusal_of_cluster("\"oversubscription\": 1.0", "\"oversubscription\": 7.5"),
            "test.json: network_tiers: the tier of 4096 GPUs is less oversubscribed than the one "
            "below it");
  EXPECT_EQ(refusal_of_cluster("\"oversubscription\": 1.0", "\"oversubscription\": 7.0"),
            "nothing was thrown");
}

TEST(ClusterSpecJson, ChecksTheCurvesOfEachCollective) {
  for (const std::string key : {"reduce_scatter_curves", "all_gather_curves"}) {
    ClusterSpec cluster = unusual_cluster();
    std::vector<AllReduceCurve>& curves =
        key == "all_gather_curves" ? cluster.all_gather_curves : cluster.reduce_scatter_curves;
    curves.push_back(curves.front());
    EXPECT_EQ(message_of([&] { return parse<ClusterSpec>(dump(cluster)); }),
              "test.json: " + key + ": two curves of " + std::to_string(curves.front().ranks) +
                  " ranks on 1 nodes");
    curves.back().nodes = 3;
    EXPECT_EQ(message_of([&] { return parse<ClusterSpec>(dump(cluster)); }),
              "test.json: " + key + ": " + std::to_string(curves.front().ranks) +
                  " ranks are not equally many on 3 nodes");
  }
}

TEST(ClusterSpecJson, RefusesAGpuWhoseFileIsNotThere) {
  EXPECT_EQ(message_of([] { return parse<ClusterSpec>(with_gpu_name("mine.json")); }),
            "test.json: gpu: mine.json: cannot be read: No such file or directory");
}

TEST(ClusterSpecJson, NamesTheCurveThatItRefuses) {
  EXPECT_THAT(refusal_of_cluster("\"time_us\": 53.43", "\"time_us\": 5.343"),
              StartsWith("test.json: all_reduce_curves[0].points: the larger message is faster"));
}

// 200 Gb/s typed where GB/s belong looks plausible and is not found; 200,000 MB/s is.
TEST(ClusterSpecJson, SaysWhichUnitIsMeant) {
  EXPECT_EQ(refusal_of_cluster("\"bandwidth_GBps\": 25.0", "\"bandwidth_GBps\": 200000"),
            "test.json: nic.bandwidth_GBps: expected a number from 0.001 to 100000.0 (gigabytes "
            "per second, not gigabits), got 200000");
  EXPECT_THAT(refusal_of_cluster("\"memory_GiB\": 40.0", "\"memory_GiB\": 42949672960"),
              StartsWith("test.json: gpu.memory_GiB: expected a number from 1e-06 to 1000000.0 "
                         "(GiB)"));
  EXPECT_THAT(refusal_of_cluster("\"peak_fp16_TFLOPs\": 100.0", "\"peak_fp16_TFLOPs\": 1e14"),
              HasSubstr("(TFLOP/s, dense), got 100000000000000.0"));
  EXPECT_THAT(refusal_of_cluster("\"hop_latency_us\": 3.4", "\"hop_latency_us\": -1"),
              HasSubstr("nvlink.hop_latency_us: expected a number from 0.0 to 1000000.0 "
                        "(microseconds), got -1"));
  EXPECT_THAT(refusal_of_cluster("\"matmul_efficiency\": 0.9", "\"matmul_efficiency\": 90"),
              HasSubstr("(a fraction of the peak), got 90"));
  EXPECT_THAT(refusal_of_cluster("\"oversubscription\": 7.0", "\"oversubscription\": 0.14"),
              HasSubstr("network_tiers[1].oversubscription: expected a number from 1.0 to 10000.0 "
                        "(1 where the tier has full bandwidth, 7 for 1:7), got 0.14"));
}

TEST(ClusterSpecJson, RefusesCountsThatNoMachineHas) {
  EXPECT_THAT(refusal_of_cluster("\"gpus_per_node\": 4", "\"gpus_per_node\": 0"),
              HasSubstr("gpus_per_node: expected a whole number from 1 to 100000, got 0"));
  EXPECT_THAT(refusal_of_cluster("\"ranks\": 2", "\"ranks\": 1"),
              HasSubstr("all_reduce_curves[0].ranks: expected a whole number from 2 to 100000"));
  EXPECT_THAT(refusal_of_cluster("\"num_multiprocessors\": 99", "\"num_multiprocessors\": 0"),
              HasSubstr("gpu.num_multiprocessors: expected a whole number from 1 to 100000"));
}

TEST(ClusterSpecJson, RefusesAMissingAndAMisspeltKey) {
  EXPECT_EQ(refusal_of_cluster("\"collective_launch_us\": 18.0,", ""),
            "test.json: collective_launch_us: missing");
  EXPECT_EQ(refusal_of_cluster("\"network_tiers\"", "\"network_tier\""),
            "test.json: \"network_tier\": unknown key; did you mean \"network_tiers\"?");
}

}  // namespace
}  // namespace ptdp
