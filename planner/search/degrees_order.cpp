// Computes the floor of a split's time, and sorts splits by it.
#include "planner/search/degrees_order.h"

#include <algorithm>
#include <iterator>
#include <tuple>

#include "cost_model/iteration/flops.h"
#include "cost_model/operations/gemm.h"
#include "cost_model/operations/linear_layer.h"

namespace ptdp {
namespace {

// Makes a bound lower by more than rounding: sums in another order are off by less.
constexpr double kBelowRounding = 1.0 - 1e-9;

Seconds gpu_seconds_of(const Scenario& scenario) {
  const GpuSpec& gpu = scenario.cluster.gpu;
  if (!gpu.measured_operations.empty()) {
    return Seconds(0.0);
  }
  const StackSpec& stack = scenario.stack;
  const double rate = std::max(matmul_rate(gpu, gpu.peak(stack.precision)).value(),
                               stack.fp8 ? low_bit_rate(gpu, format_of(*stack.fp8)).value() : 0.0);
  const Flops flops = linear_flops(scenario.job.model, scenario.job.global_batch_size);
  const double factor = std::min(1.0, scenario.cluster.time_factors.matmul);
  return kBelowRounding * factor * (flops / FlopsPerSecond(rate));
}

}  // namespace

ComputeFloor::ComputeFloor(const Scenario& scenario, std::int64_t gpus,
                           const std::vector<Replicas>& replicas)
    : gpu_seconds_(gpu_seconds_of(scenario)), gpus_(gpus), replicas_(replicas) {}

Seconds ComputeFloor::of(const Degrees& degrees) const {
  const auto beyond =
      std::ranges::upper_bound(replicas_, gpus_ / degrees.gpus(), {}, &Replicas::dp);
  const std::int64_t dp = beyond == replicas_.begin() ? 1 : std::prev(beyond)->dp;
  return gpu_seconds_ / static_cast<double>(degrees.gpus() * dp);
}

void order_degrees(std::vector<Degrees>& all, const ComputeFloor& floor) {
  using Key = std::tuple<Seconds, std::int64_t, int, int, int>;
  std::vector<Key> keys;
  keys.reserve(all.size());
  for (const Degrees& degrees : all) {
    keys.emplace_back(floor.of(degrees), degrees.gpus(), degrees.tp, degrees.pp, degrees.cp);
  }
  std::ranges::sort(keys);
  std::ranges::transform(keys, all.begin(), [](const Key& key) {
    const auto& [least, gpus, tp, pp, cp] = key;
    return Degrees{.tp = tp, .pp = pp, .cp = cp};
  });
}

}  // namespace ptdp
