// Collectives within a node against what NVIDIA measured with nccl-tests.
#include <gtest/gtest.h>

#include <iostream>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/inputs/catalog/catalog.h"
#include "cost_model/network/collectives.h"
#include "tests/validation/kernels/measured_kernels.h"

namespace ptdp {
namespace {

constexpr Bytes kSmallest(64.0 * 1024.0);  // below it, times are those of a kernel's start

using CollectiveTime = Seconds (*)(Bytes, const GroupPlacement&, const ClusterSpec&);

/// Systems of the measurements, and our profiles of such nodes.
const std::vector<std::pair<std::string, std::string>>& systems() {
  static const std::vector<std::pair<std::string, std::string>> all = {
      {"a100_sxm", "dgx-a100-40gb"},
      {"h100_sxm", "dgx-h100"},
      {"h200_sxm", "hgx-h200"},
      {"b200_sxm", "dgx-b200"},
      {"gb200", "dgx-gb200"}};
  return all;
}

/// Collectives of nccl-tests and our functions, by the number that measured_collectives() gives m.
const std::vector<std::pair<std::string, CollectiveTime>>& collectives() {
  static const std::vector<std::pair<std::string, CollectiveTime>> all = {
      {"all_reduce", all_reduce_time},
      {"all_gather", all_gather_time},
      {"reduce_scatter", reduce_scatter_time},
      {"alltoall", all_to_all_time}};
  return all;
}

std::vector<MeasuredKernel> measured_collectives(const std::string& system) {
  std::vector<MeasuredKernel> kernels;
  for (std::size_t i = 0; i < collectives().size(); ++i) {
    for (MeasuredKernel kernel : measured_kernels(system, "nccl", collectives()[i].first, "half")) {
      kernel.m = static_cast<std::int64_t>(i);
      kernels.push_back(kernel);
    }
  }
  std::erase_if(kernels, [](const MeasuredKernel& kernel) { return kernel.bytes < kSmallest; });
  return kernels;
}

Seconds time_of(const MeasuredKernel& kernel, const ClusterSpec& cluster) {
  return collectives()[static_cast<std::size_t>(kernel.m)].second(
      kernel.bytes, {.size = kernel.num_gpus, .ranks_per_node = kernel.num_gpus}, cluster);
}

ClusterSpec without_curves(const std::string& name) {
  ClusterSpec cluster = find_cluster(name);
  cluster.all_reduce_curves.clear();
  return cluster;
}

TEST(MeasuredCollectives, GiveTheConstantsOfProfiles) {
  for (const auto& [system, name] : systems()) {
    SCOPED_TRACE(name);
    ClusterSpec cluster = without_curves(name);
    NcclSpec& nccl = cluster.nccl_within_node.value();
    double launch = nccl.launch.value() / kMicro;
    double simple_ramp = nccl.simple_ramp.value() / kMicro;
    double nvls_ramp = nccl.nvls.ramp.value_or(Seconds(0.0)).value() / kMicro;
    std::vector<FittedConstant> constants = {{"launch_us", &launch, 10.0},
                                             {"simple_ramp_us", &simple_ramp, 5.0}};
    if (nccl.nvls.ramp) {
      constants.push_back({"nvls.ramp_us", &nvls_ramp, 15.0});
    }
    for (NcclGroupRate& rate : nccl.group_rates) {
      // The B200's is what its largest gathers reach. A fit would give it up for smaller buffers:
      // its loss is 4 % less where 8 GPUs gather large ones 14 % too slowly.
      if (name == "dgx-b200" && rate.gpus == 8) {
        continue;
      }
      constants.push_back({"share of " + std::to_string(rate.gpus), &rate.share, 1.0});
    }
    const auto predict = [&](const MeasuredKernel& kernel) {
      nccl.launch = microseconds(launch);
      nccl.simple_ramp = microseconds(simple_ramp);
      nccl.nvls.ramp = microseconds(nvls_ramp);
      return time_of(kernel, cluster);
    };
    expect_refitted(measured_collectives(system), predict, constants);
  }
}

TEST(MeasuredCollectives, AreAsLongAsTheyShouldBe) {
  for (const auto& [system, name] : systems()) {
    const ClusterSpec cluster = without_curves(name);
    const KernelErrors errors =
        errors_on(measured_collectives(system),
                  [&](const MeasuredKernel& kernel) { return time_of(kernel, cluster); });
    std::cout << name << ": " << errors << " %\n";
    EXPECT_LT(errors.median, 0.09) << name;
    EXPECT_LT(errors.p90, 0.24) << name;
  }
}

}  // namespace
}  // namespace ptdp
