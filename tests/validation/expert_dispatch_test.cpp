// Compares dispatch and combine with the bandwidths that DeepEP publishes, and all-to-all with
// NCCL's.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <iomanip>
#include <iostream>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/network/collectives.h"
#include "cost_model/network/expert_dispatch.h"

namespace ptdp {
namespace {

constexpr int kTokens = 4096;
constexpr int kHidden = 7168;
constexpr int kGpusPerNode = 8;
constexpr double kFp8WithScales = 1.0 + 4.0 / 128.0;  // what DeepEP's tests count
constexpr double kBf16 = 2.0;

/// A bandwidth of deepseek-ai/DeepEP, docs/legacy.md at 0297fc80 (README.md of version 1), normal
/// kernels with 24 SMs. The batch is 4096 tokens of 7168, 8 of 256 experts in at most 4 groups, FP8
/// there and BF16 back. GB/s count the copies of tokens that nodes (or, in a node, GPUs) get, the
/// sender's own among them.
struct PublishedBandwidth {
  int gpus = 0;
  double dispatch = 0.0;
  double combine = 0.0;
};
constexpr std::array kDeepEp = {
    PublishedBandwidth{8, 153.0, 158.0}, PublishedBandwidth{16, 43.0, 43.0},
    PublishedBandwidth{32, 58.0, 57.0}, PublishedBandwidth{64, 51.0, 50.0}};

/// Returns the routing of DeepEP's tests, which have a group per node.
ExpertRouting routing_on(int gpus) {
  const int nodes = gpus / kGpusPerNode;
  return {.num_experts = 256, .topk = 8, .num_groups = nodes, .group_topk = std::min(nodes, 4)};
}

/// Returns the copies that a batch with random scores makes, as tests/test_internode.py and
/// test_intranode.py of DeepEP count them. That is one copy per token and node, or per GPU in a
/// node.
double counted_copies(int gpus) {
  const ExpertRouting routing = routing_on(gpus);
  const auto experts = static_cast<std::size_t>(routing.num_experts);
  const std::size_t per_group = experts / static_cast<std::size_t>(routing.num_groups);
  const std::size_t per_place =
      experts / static_cast<std::size_t>(gpus > kGpusPerNode ? routing.num_groups : gpus);
  std::mt19937_64 random(1);
  std::size_t copies = 0;
  for (int token = 0; token < kTokens; ++token) {
    std::vector<std::pair<std::mt19937_64::result_type, std::size_t>> best(experts);
    for (std::size_t expert = 0; expert < experts; ++expert) {
      best[expert] = {random(), expert};
    }
    std::sort(best.rbegin(), best.rend());
    std::set<std::size_t> groups;
    std::set<std::size_t> places;
    int chosen = 0;
    for (const auto& [score, expert] : best) {
      if (std::ssize(groups) < routing.group_topk) {
        groups.insert(expert / per_group);
      }
      if (chosen < routing.topk && groups.contains(expert / per_group)) {
        places.insert(expert / per_place);
        ++chosen;
      }
    }
    copies += places.size();
  }
  return static_cast<double>(copies);
}

struct WorstErrors {
  double low = 0.0;
  double high = 0.0;
};

WorstErrors print_errors_of_deep_ep(const std::string& title, const ClusterSpec& cluster) {
  WorstErrors worst;
  std::cout << title << "\n  GPUs            measured us  predicted us  error %\n"
            << std::fixed << std::setprecision(1);
  for (const PublishedBandwidth& published : kDeepEp) {
    const double copies = counted_copies(published.gpus);
    const GroupPlacement group = place_expert_group({.dp = published.gpus, .ep = published.gpus},
                                                    ExpertDimension::kExpert, cluster);
    Dispatch dispatch = {
        .tokens = kTokens, .hidden_size = kHidden, .routing = routing_on(published.gpus)};
    const auto print = [&](const char* what, double bandwidth, double bytes, Seconds predicted) {
      const Seconds measured = Bytes(copies * kHidden * bytes) / gigabytes_per_second(bandwidth);
      const double error = predicted / measured - 1.0;
      std::cout << std::setw(6) << published.gpus << "  " << std::setw(8) << what << std::setw(13)
                << measured.value() / kMicro << std::setw(14) << predicted.value() / kMicro
                << std::setw(9) << 100.0 * error << '\n';
      worst.low = std::min(worst.low, error);
      worst.high = std::max(worst.high, error);
    };
    dispatch.element_bytes = kFp8WithScales;
    print("dispatch", published.dispatch, kFp8WithScales,
          dispatch_time(dispatch, ExpertDispatch::kHierarchical, group, cluster));
    dispatch.element_bytes = kBf16;
    print("combine", published.combine, kBf16,
          combine_time(dispatch, ExpertDispatch::kHierarchical, group, cluster));
  }
  std::cout << '\n';
  return worst;
}

// The profile h800 has Selene's 0.74 of its NICs for want of a measurement; dgx-h100 has 0.925 of
// the same ConnectX-7 from NVIDIA. Predictions are short on two nodes, where NVLink decides: DeepEP
// reaches 140 GB/s by its count there, and 153 to 158 within a node; the profile has 164.
TEST(HierarchicalDispatch, IsNearDeepEpWithTheNicsOfDgxH100) {
  ClusterSpec cluster = find_cluster("h800");
  cluster.nic.collective_efficiency = find_cluster("dgx-h100").nic.collective_efficiency;
  const WorstErrors worst = print_errors_of_deep_ep("DeepEP, H800, NICs of dgx-h100", cluster);
  EXPECT_GT(worst.low, -0.14);
  EXPECT_LT(worst.high, 0.01);
}

TEST(HierarchicalDispatch, IsTooSlowAcrossNodesWithTheNicsOfTheProfile) {
  const WorstErrors worst =
      print_errors_of_deep_ep("DeepEP, H800 as shipped", find_cluster("h800"));
  EXPECT_GT(worst.low, -0.14);
  EXPECT_GT(worst.high, 0.20);
  EXPECT_LT(worst.high, 0.25);
}

/// An all-to-all of nccl-tests, out of place, with equally many GPUs on each node.
struct PublishedAllToAll {
  std::string source;
  std::string cluster;
  int gpus = 0;
  int nodes = 1;
  Bytes size;
  Seconds time;
  double tolerance = 0.05;
};

// Two points alone, of plain buffers: few all-to-alls are published, and the issues are about other
// sizes and buffers. The model's form was chosen with both in view. In place the second took 295.6
// us, from which the prediction is 11 % away. The first is of another machine than the constants:
// that one takes 1246 us for 512 MiB (tests/golden/kernels_measured.csv), 4 % longer.
TEST(AllToAllTime, IsNearPublishedPoints) {
  const std::vector<PublishedAllToAll> points = {
      {"NCCL issue 2169, 4 H100, NCCL 2.30", "dgx-h100", 4, 1, Bytes(524288000),
       microseconds(1174.14), 0.08},
      {"NCCL issue 1531, 64 H800", "h800", 64, 8, Bytes(8388608), microseconds(337.8)}};
  for (const PublishedAllToAll& point : points) {
    const GroupPlacement group = {
        .size = point.gpus, .ranks_per_node = point.gpus / point.nodes, .nodes = point.nodes};
    const Seconds predicted = all_to_all_time(point.size, group, find_cluster(point.cluster));
    const double error = predicted / point.time - 1.0;
    std::cout << std::fixed << std::setprecision(1) << point.source << ": measured "
              << point.time.value() / kMicro << " us, predicted " << predicted.value() / kMicro
              << " us, " << 100.0 * error << " %\n";
    EXPECT_NEAR(error, 0.0, point.tolerance) << point.source;
  }
}

}  // namespace
}  // namespace ptdp
