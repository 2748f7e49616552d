// A list of layers of any bytes is refused, or cut into stages that hold all of it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "planner/partition_report/partition_output.h"
#include "tests/fuzz/fuzzing.h"

namespace {

void check_partition(const ptdp::LayerList& list, ptdp::PartitionRequest request) {
  request.most_steps = 20'000;
  try {
    const ptdp::PipelinePartition partition = ptdp::partition_list(list, request, 16);
    const std::vector<int> sizes = partition.layers_per_stage();
    const auto count = [](int sum, const ptdp::ListedLayer& layer) { return sum + layer.count; };
    ptdp::require(std::accumulate(sizes.begin(), sizes.end(), 0) ==
                  std::accumulate(list.layers.begin(), list.layers.end(), 0, count));
    ptdp::require(*std::min_element(sizes.begin(), sizes.end()) >= 0);
    if (partition.even) {
      const double ours = partition.ranks[slowest_rank(partition.ranks)].time.value();
      const double even = partition.even->ranks[slowest_rank(partition.even->ranks)].time.value();
      ptdp::require(std::isfinite(ours) && ours <= even * (1.0 + 1e-9));
    }
    ptdp::require(!to_text(partition).empty() && !to_json(partition).empty());
  } catch (const ptdp::Error& error) {
    // Too few layers, or too many unlike ones.
    ptdp::require(error.status() == ptdp::ExitStatus::kNothingFits || request.vpp > 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  return ptdp::fuzz(data, size, [](std::string_view text) {
    const ptdp::LayerList list = ptdp::parse_layer_list(text, "layers.json");
    check_partition(list, {.pp = 1});
    check_partition(list, {.pp = 3});
    check_partition(list, {.pp = 2, .vpp = 2, .placement = ptdp::StagePlacement::kV});
    check_partition(list, {.pp = 2, .vpp = 3});
  });
}
