// Collectives against published curves: what the model and the shipped curves reach from 1 MiB on.
//
// The aim is 15 %. Every test prints each point's error; where the aim is missed, the number of
// points that miss it is pinned, so that neither a loss nor a gain goes unnoticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iomanip>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/network/collectives.h"

namespace ptdp {
namespace {

constexpr double kMebi = 1024.0 * 1024.0;
constexpr double kAim = 0.15;

/// Returns `ranks` GPUs, equally many on each of `nodes`.
GroupPlacement group_of(int ranks, int nodes) {
  return {.size = ranks, .ranks_per_node = ranks / nodes, .nodes = nodes};
}

std::vector<MeasuredPoint> published(const std::string& name, int ranks) {
  for (const AllReduceCurve& curve : find_all_reduce_curves(name)) {
    if (curve.ranks == ranks) {
      std::vector<MeasuredPoint> points = curve.curve.points();
      std::erase_if(points, [](const MeasuredPoint& point) { return point.size < Bytes(kMebi); });
      return points;
    }
  }
  ADD_FAILURE() << "no curve of " << ranks << " ranks in " << name;
  return {};
}

struct Errors {
  double mean = 0.0;
  double worst = 0.0;
  int num_beyond_aim = 0;
};

/// Returns a number with one decimal, `width` wide.
std::string fixed(double value, int width) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(1) << std::setw(width) << value;
  return text.str();
}

/// Returns the errors of the cluster's all-reduces. Prints them beside those of NCCL's tuner alone,
/// without launch and ramp, which are equal where a curve decides.
Errors print_errors(const std::string& title, const std::vector<MeasuredPoint>& points,
                    const ClusterSpec& cluster, const GroupPlacement& group) {
  ClusterSpec bare = cluster;
  for (std::optional<NcclSpec>* nccl : {&bare.nccl, &bare.nccl_within_node}) {
    if (*nccl) {
      (*nccl)->launch = (*nccl)->ramp = (*nccl)->simple_ramp = Seconds(0.0);
      (*nccl)->nvls.ramp.reset();
    }
  }
  Errors errors;
  std::cout << title << "\n     MiB  measured us  predicted us  error %  tuner alone %\n";
  for (const MeasuredPoint& point : points) {
    const Seconds predicted = all_reduce_time(point.size, group, cluster);
    const double error = predicted / point.time - 1.0;
    const double of_bare = all_reduce_time(point.size, group, bare) / point.time - 1.0;
    std::cout << fixed(point.size.value() / kMebi, 8) << fixed(point.time.value() / kMicro, 13)
              << fixed(predicted.value() / kMicro, 14) << fixed(100.0 * error, 9)
              << fixed(100.0 * of_bare, 15) << '\n';
    errors.mean += std::abs(error) / static_cast<double>(points.size());
    errors.worst = std::max(errors.worst, std::abs(error));
    errors.num_beyond_aim += std::abs(error) > kAim ? 1 : 0;
  }
  std::cout << "mean " << fixed(100.0 * errors.mean, 0) << " %, worst "
            << fixed(100.0 * errors.worst, 0) << " %, " << errors.num_beyond_aim << " of "
            << points.size() << " points beyond 15 %\n\n";
  return errors;
}

/// Returns a shipped cluster without its curves.
ClusterSpec without_curves(const std::string& name) {
  ClusterSpec cluster = find_cluster(name);
  cluster.all_reduce_curves.clear();
  return cluster;
}

/// Returns a shipped cluster without its curves, whose `nccl` holds within nodes as well.
ClusterSpec with_one_nccl(const std::string& name) {
  ClusterSpec cluster = without_curves(name);
  cluster.nccl_within_node.reset();
  return cluster;
}

/// Returns the launch and ramp of the A100s for another machine.
NcclSpec nccl_like_a100(int compute_capability, int channels) {
  const NcclSpec a100 = find_cluster("dgx-a100-40gb").nccl.value_or(NcclSpec{});
  return {.compute_capability = compute_capability,
          .channels = channels,
          .channels_per_nic = 2,
          .launch = a100.launch,
          .ramp = a100.ramp};
}

/// Returns nodes of eight B200: 700 of 900 GB/s, 850 with SHARP (NVIDIA GTC 2025). EFA is that of
/// aws-p5-h100, except for the latency of 35 us that aws-ofi-nccl (src/platform-aws.cpp) reports on
/// p6-b200.
ClusterSpec b200() {
  ClusterSpec cluster;
  cluster.gpus_per_node = 8;
  cluster.nvlink = {.bandwidth = gigabytes_per_second(900.0), .efficiency = 700.0 / 900.0};
  cluster.nic = {.bandwidth = gigabytes_per_second(50.0), .collective_efficiency = 0.91};
  cluster.nccl = nccl_like_a100(100, 24);
  cluster.nccl->nvls = {.channels = 24, .bandwidth = gigabytes_per_second(850.0)};
  cluster.nccl->nic_latency = microseconds(35.0);
  cluster.nccl->enabled.algorithms = {false, true, true, false, false};
  return cluster;
}

/// Returns a DGX-1, whose rate of large messages is taken from the curve itself.
ClusterSpec v100() {
  ClusterSpec cluster = without_curves("dgx1-v100-16gb");
  cluster.nccl = nccl_like_a100(70, 12);
  return cluster;
}

// launch and ramp were fitted to these three (profiles/clusters/dgx-a100-40gb.json): how well two
// constants describe them, and no evidence for other machines.
TEST(AllReduceModel, DescribesTheCurvesItsConstantsWereFittedTo) {
  struct Row {
    int ranks;
    double mean;
    int num_beyond_aim;
  };
  for (const Row row : {Row{2, 0.10, 0}, Row{4, 0.05, 1}, Row{8, 0.08, 1}}) {
    const Errors errors = print_errors("fitted: " + std::to_string(row.ranks) + " A100, vTrain",
                                       published("a100-nvswitch", row.ranks),
                                       with_one_nccl("dgx-a100-40gb"), group_of(row.ranks, 1));
    EXPECT_LE(errors.mean, row.mean) << row.ranks;
    EXPECT_EQ(errors.num_beyond_aim, row.num_beyond_aim) << row.ranks;
  }
}

TEST(AllReduceModel, PredictsOtherMachines) {
  struct Row {
    std::string title;
    std::vector<MeasuredPoint> points;
    ClusterSpec cluster;
    GroupPlacement group;
    double mean;
    int num_beyond_aim;
  };
  const std::vector<Row> rows = {
      {"predicted: 8 A100, ml-engineering", published("a100-nvswitch-ml-engineering", 8),
       with_one_nccl("dgx-a100-40gb"), group_of(8, 1), 0.11, 2},
      {"predicted: 8 H200, ml-engineering", published("h200-nvswitch", 8),
       with_one_nccl("hgx-h200"), group_of(8, 1), 0.05, 1},
      {"predicted: 8 B200, ml-engineering", published("b200-nvswitch", 8), b200(), group_of(8, 1),
       0.20, 5},
      {"predicted: 32 B200 on 4 nodes with EFA, ml-engineering", published("b200-efa", 32), b200(),
       group_of(32, 4), 0.10, 2},
      {"predicted but for the plateau: 8 V100, vTrain", published("v100-hybrid-cube-mesh", 8),
       v100(), group_of(8, 1), 0.10, 2}};
  for (const Row& row : rows) {
    const Errors errors = print_errors(row.title, row.points, row.cluster, row.group);
    EXPECT_LE(errors.mean, row.mean) << row.title;
    EXPECT_EQ(errors.num_beyond_aim, row.num_beyond_aim) << row.title;
  }
}

// The shipped constants within a node come from nccl-tests (tests/golden/kernels_measured.csv),
// which repeats a collective without waiting for it. The curves of ml-engineering time single calls
// of PyTorch, the start of each included: 1 MiB takes 8 H200 46 us there and 28 us in nccl-tests.
TEST(AllReduceModel, WithinANodeIsShorterThanSingleCallsUpToSomeMebibytes) {
  struct Row {
    std::string curve;
    std::string cluster;
    int ranks;
    double mean;
    int num_beyond_aim;
  };
  for (const Row& row : {Row{"a100-nvswitch", "dgx-a100-40gb", 2, 0.13, 2},
                         Row{"a100-nvswitch", "dgx-a100-40gb", 4, 0.12, 3},
                         Row{"a100-nvswitch", "dgx-a100-40gb", 8, 0.17, 3},
                         Row{"a100-nvswitch-ml-engineering", "dgx-a100-40gb", 8, 0.16, 4},
                         Row{"h200-nvswitch", "hgx-h200", 8, 0.11, 5},
                         Row{"b200-nvswitch", "dgx-b200", 8, 0.175, 6}}) {
    std::vector<MeasuredPoint> points = published(row.curve, row.ranks);
    const ClusterSpec cluster = without_curves(row.cluster);
    const Errors errors =
        print_errors("by nccl-tests: " + std::to_string(row.ranks) + " GPUs, " + row.curve, points,
                     cluster, group_of(row.ranks, 1));
    EXPECT_LE(errors.mean, row.mean) << row.curve;
    EXPECT_EQ(errors.num_beyond_aim, row.num_beyond_aim) << row.curve;
    std::erase_if(points,
                  [](const MeasuredPoint& point) { return point.size < Bytes(100.0 * kMebi); });
    EXPECT_LE(print_errors("from 100 MiB on", points, cluster, group_of(row.ranks, 1)).worst, kAim)
        << row.curve;
  }
}

/// Returns the smallest worst error that t = a + (√x + √τ)², x = 2(n−1)/n · S/β, has with any a, τ
/// and β.
double best_worst_error(const std::vector<MeasuredPoint>& points, int ranks) {
  double best = 1.0;
  const Seconds largest = points.back().time;
  const Bytes volume = ring_all_reduce_volume(points.back().size, ranks);
  for (int i = 0; i <= 40; ++i) {
    const BytesPerSecond rate((volume / largest).value() * (0.7 + 0.02 * i));
    for (int j = 0; j <= 30; ++j) {
      const double root_of_ramp = 0.2 * j * std::sqrt(kMicro);
      for (int k = 0; k <= 130; ++k) {
        const double start = 10.0 * kMicro * std::pow(1.03, k);
        double worst = 0.0;
        for (const MeasuredPoint& point : points) {
          const Seconds transfer = ring_all_reduce_volume(point.size, ranks) / rate;
          const double ramped = std::sqrt(transfer.value()) + root_of_ramp;
          worst = std::max(worst, std::abs((start + ramped * ramped) / point.time.value() - 1.0));
        }
        best = std::min(best, worst);
      }
    }
  }
  return best;
}

// What the form can describe with three constants for each machine. No prediction: each curve is
// fitted to itself. Those that miss the aim have jumps: eight B200 take no longer for 16 MiB than
// for 8, the A100s of ml-engineering twice as long.
TEST(AllReduceModel, DescribesMostCurvesByThreeConstantsEach) {
  struct Row {
    std::string curve;
    int ranks;
    double worst;
  };
  for (const Row& row :
       {Row{"a100-nvswitch", 2, 0.15}, Row{"a100-nvswitch", 4, 0.15}, Row{"a100-nvswitch", 8, 0.15},
        Row{"h200-nvswitch", 8, 0.15}, Row{"b200-efa", 32, 0.15},
        Row{"v100-hybrid-cube-mesh", 2, 0.15}, Row{"v100-hybrid-cube-mesh", 4, 0.15},
        Row{"v100-hybrid-cube-mesh", 8, 0.15}, Row{"b200-nvswitch", 8, 0.18},
        Row{"a100-nvswitch-ml-engineering", 8, 0.18}}) {
    const double worst = best_worst_error(published(row.curve, row.ranks), row.ranks);
    std::cout << "three constants: " << row.ranks << " GPUs, " << row.curve << ": worst "
              << fixed(100.0 * worst, 0) << " %\n";
    EXPECT_LE(worst, row.worst) << row.curve;
  }
}

// vTrain (VIA-Research/vTrain) trace/{a100,v100}/AR_GPU{2,4,8}_1M_1024M_LUT, out-of-place column,
// at sizes that the shipped curves leave out: 3, 6, 12, ... 768 MiB. [us]
TEST(AllReduceCurves, InterpolateTheSizesThatTheyLeaveOut) {
  struct Row {
    std::string curve;
    int ranks;
    std::vector<double> times;
  };
  const std::vector<Row> rows = {
      {"a100-nvswitch", 2, {56.3, 72.7, 109.1, 176.5, 313.0, 572.0, 1104.7, 2142.9, 4151.0}},
      {"a100-nvswitch", 4, {64.9, 104.1, 139.2, 220.2, 396.4, 762.7, 1442.3, 2820.7, 5493.5}},
      {"a100-nvswitch", 8, {92.6, 108.4, 175.7, 265.3, 439.4, 828.5, 1610.2, 3147.1, 6187.0}},
      {"v100-hybrid-cube-mesh",
       2,
       {162.4, 300.8, 581.0, 1136.5, 2252.9, 4484.7, 8940.1, 17865.0, 35706.0}},
      {"v100-hybrid-cube-mesh",
       4,
       {121.6, 146.3, 250.6, 472.2, 909.5, 1779.1, 3526.4, 7074.2, 14176.0}},
      {"v100-hybrid-cube-mesh",
       8,
       {123.8, 188.0, 300.5, 365.6, 689.8, 1338.3, 2643.9, 5261.9, 10484.0}},
  };
  for (const Row& row : rows) {
    ClusterSpec cluster;
    cluster.all_reduce_curves = find_all_reduce_curves(row.curve);
    std::vector<MeasuredPoint> points;
    double mebibytes = 3.0;
    for (const double time : row.times) {
      points.push_back({.size = Bytes(mebibytes * kMebi), .time = microseconds(time)});
      mebibytes *= 2.0;
    }
    const std::string title = "interpolated: " + std::to_string(row.ranks) + " GPUs, " + row.curve;
    const Errors errors = print_errors(title, points, cluster, group_of(row.ranks, 1));
    EXPECT_LE(errors.worst, kAim) << title;
  }
}

// Two machines with eight A100s differ by up to 19 %: so much does a curve err that was measured on
// another machine of the kind.
TEST(AllReduceCurves, OfAnotherMachineAreOffByWhatMachinesDiffer) {
  const Errors errors = print_errors("by the curve of another machine: 8 A100, ml-engineering",
                                     published("a100-nvswitch-ml-engineering", 8),
                                     find_cluster("dgx-a100-40gb"), group_of(8, 1));
  EXPECT_LE(errors.mean, 0.08);
  EXPECT_LE(errors.worst, 0.17);
  EXPECT_EQ(errors.num_beyond_aim, 3);
}

}  // namespace
}  // namespace ptdp
