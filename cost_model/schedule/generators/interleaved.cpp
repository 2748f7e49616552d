// Interleaved 1F1B: groups of microbatches take turns on the stages of a rank.
#include <algorithm>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

/// One of a rank's stages, counted from its first, and a microbatch.
struct Step {
  int chunk = 0;
  int microbatch = 0;
};

/// Returns the forward passes of any rank in order: group by group, in a group chunk by chunk. The
/// backward passes are the same with the chunks counted from the last.
std::vector<Step> forward_steps(const ScheduleShape& shape, int group_size) {
  std::vector<Step> steps;
  steps.reserve(static_cast<std::size_t>(shape.vpp) * shape.num_microbatches);
  for (int first = 0; first < shape.num_microbatches; first += group_size) {
    const int end = std::min(first + group_size, shape.num_microbatches);
    for (int chunk = 0; chunk < shape.vpp; ++chunk) {
      for (int microbatch = first; microbatch < end; ++microbatch) {
        steps.push_back({chunk, microbatch});
      }
    }
  }
  return steps;
}

}  // namespace

Schedule interleaved(const ScheduleShape& shape) {
  const int group_size = shape.microbatch_group_size != 0
                             ? shape.microbatch_group_size
                             : default_microbatch_group_size(shape.pp, shape.num_microbatches);
  const std::vector<Step> steps = forward_steps(shape, group_size);
  Schedule schedule = without_actions(ScheduleKind::kInterleaved, shape);
  for (int rank = 0; rank < shape.pp; ++rank) {
    std::vector<Action>& order = schedule.orders[rank];
    order.reserve(2 * steps.size());
    const auto backward = [&](const Step& step) {
      const int chunk = shape.vpp - 1 - step.chunk;
      order.push_back({ActionKind::kBackward, chunk * shape.pp + rank, step.microbatch});
    };
    const std::size_t warm_up =
        std::min(steps.size(), (shape.vpp - 1) * static_cast<std::size_t>(group_size) +
                                   2 * static_cast<std::size_t>(shape.pp - 1 - rank));
    for (std::size_t i = 0; i < steps.size(); ++i) {
      order.push_back(
          {ActionKind::kForward, steps[i].chunk * shape.pp + rank, steps[i].microbatch});
      if (i >= warm_up) {
        backward(steps[i - warm_up]);
      }
    }
    for (std::size_t i = steps.size() - warm_up; i < steps.size(); ++i) {
      backward(steps[i]);
    }
  }
  return schedule;
}

int interleaved_activations(const ScheduleShape& shape, int rank) {
  const int size = shape.microbatch_group_size != 0
                       ? shape.microbatch_group_size
                       : default_microbatch_group_size(shape.pp, shape.num_microbatches);
  const std::int64_t warm_up =
      (shape.vpp - 1) * std::int64_t{size} + 2 * std::int64_t{shape.pp - 1 - rank};
  return at_most_all(warm_up + 1, shape);
}

}  // namespace ptdp
