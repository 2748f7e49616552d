#include "cost_model/spec/scenario.h"

#include <algorithm>

#include "cost_model/error.h"

namespace ptdp {

void check(const Scenario& scenario) {
  const ClusterSpec& cluster = scenario.cluster;
  const StackSpec& stack = scenario.stack;
  if (cluster.gpu.peak(stack.precision).value() <= 0.0) {
    throw Error("stack " + stack.name + " trains in " + std::string(name_of(stack.precision)) +
                ", for which " + cluster.gpu.name + " of cluster " + cluster.name +
                " has no matrix units");
  }
  const bool has_rate =
      std::any_of(cluster.gpu.attention_rates.begin(), cluster.gpu.attention_rates.end(),
                  [&](const AttentionRate& rate) { return rate.kernel == stack.attention; });
  if (stack.attention != "unfused" && !has_rate) {
    throw Error("stack " + stack.name + " uses " + stack.attention + " attention, for which " +
                cluster.gpu.name + " of cluster " + cluster.name + " has no measured rate");
  }
  if (stack.tensor_parallel_overlap && !can_overlap_tensor(stack)) {
    throw Error("stack " + stack.name +
                " has tensor_parallel_overlap: a host's collectives are done when they are begun, "
                "so none runs behind a product; expected false, and no tensor in --overlap");
  }
}

}  // namespace ptdp
