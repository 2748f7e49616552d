#include "cost_model/simulation/step_times.h"

#include <cstddef>

namespace ptdp {

StageDurations stage_durations(Seconds forward, Seconds input_gradient, Seconds weight_gradient,
                               Seconds alone) {
  return {.forward = forward,
          .backward = input_gradient + weight_gradient,
          .input_gradient = input_gradient,
          .weight_gradient = weight_gradient,
          .alone = alone};
}

void add_to_passes(Seconds forward, Seconds backward, std::vector<StageDurations>& stages) {
  const double share = 1.0 / static_cast<double>(stages.size());
  for (StageDurations& of : stages) {
    of = stage_durations(of.forward + share * forward, of.input_gradient + share * backward,
                         of.weight_gradient, of.alone);
  }
}

bool is_within_node(const StepTimes& times, int rank, int other) {
  const auto node_of = [&](int of) { return times.node_of[static_cast<std::size_t>(of)]; };
  return times.node_of.empty() || node_of(rank) == node_of(other);
}

const TransferTime& message_between(const StepTimes& times, int rank, int other) {
  if (times.hops.empty()) {
    return is_within_node(times, rank, other) ? times.within_node : times.across_nodes;
  }
  const auto num_ranks = static_cast<int>(times.hops.size());
  return times.hops[static_cast<std::size_t>((rank + 1) % num_ranks == other ? rank : other)];
}

}  // namespace ptdp
