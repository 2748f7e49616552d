// Evaluates the closed forms of pipelining.
#include "cost_model/memory/pipeline_formulas.h"

#include <algorithm>
#include <cassert>
#include <cmath>

namespace ptdp {

double bubble_fraction(int pp, int vpp, double num_microbatches) {
  return (pp - 1.0) / (vpp * num_microbatches);
}

double tensor_pipeline_bubble_fraction(std::int64_t gpus, int tp, double num_microbatches) {
  return (static_cast<double>(gpus) / tp - 1.0) / num_microbatches;
}

double data_pipeline_bubble_fraction(std::int64_t gpus, int dp, double batch_in_microbatches) {
  return (static_cast<double>(gpus) - dp) / batch_in_microbatches;
}

Seconds microbatched_time(double batch_per_replica, int micro_batch_size, int pp,
                          Seconds forward_and_backward) {
  return (batch_per_replica / micro_batch_size + pp - 1.0) * forward_and_backward;
}

int best_micro_batch_size(std::span<const MicrobatchTime> times, double batch_per_replica, int pp) {
  assert(!times.empty());
  const auto time = [&](const MicrobatchTime& entry) {
    return microbatched_time(batch_per_replica, entry.micro_batch_size, pp,
                             entry.forward_and_backward);
  };
  const auto best = std::min_element(
      times.begin(), times.end(), [&](const MicrobatchTime& a, const MicrobatchTime& b) {
        return time(a) != time(b) ? time(a) < time(b) : a.micro_batch_size < b.micro_batch_size;
      });
  return best->micro_batch_size;
}

Bytes checkpointed_activations(double num_checkpoints, int num_layers, Bytes input,
                               Bytes intermediate) {
  return num_checkpoints * input + (num_layers / num_checkpoints) * intermediate;
}

double best_num_checkpoints(int num_layers, Bytes input, Bytes intermediate) {
  return std::sqrt(num_layers * (intermediate / input));
}

double chunks_in_flight(int pp, int vpp, int rank, double num_microbatches) {
  const double all_chunks = num_microbatches * vpp;
  if (vpp > 1 && num_microbatches == pp) {
    return all_chunks;
  }
  const double later_stages = pp - 1.0 - rank;
  const double warm_up = vpp == 1 ? later_stages : (vpp - 1.0) * pp + 2.0 * later_stages;
  return std::min(all_chunks, warm_up + 1.0);
}

}  // namespace ptdp
