// The schedules in which one forward pass and one backward pass take turns.
#include <algorithm>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {

namespace {

Schedule in_its_order(const ScheduleShape& shape, ScheduleKind kind) {
  const int microbatches = shape.num_microbatches;
  Schedule schedule = without_actions(kind, shape);
  for (int rank = 0; rank < shape.pp; ++rank) {
    std::vector<Action>& order = schedule.orders[rank];
    order.reserve(2 * static_cast<std::size_t>(microbatches));
    const int warm_up = std::min(shape.pp - 1 - rank, microbatches);
    for (int microbatch = 0; microbatch < microbatches; ++microbatch) {
      order.push_back({ActionKind::kForward, rank, microbatch});
      if (microbatch >= warm_up) {
        order.push_back({ActionKind::kBackward, rank, microbatch - warm_up});
      }
    }
    for (int microbatch = microbatches - warm_up; microbatch < microbatches; ++microbatch) {
      order.push_back({ActionKind::kBackward, rank, microbatch});
    }
  }
  return schedule;
}

}  // namespace

Schedule one_f_one_b(const ScheduleShape& shape) {
  return in_its_order(shape, ScheduleKind::kOneFOneB);
}

Schedule pipedream(const ScheduleShape& shape) {
  return in_its_order(shape, ScheduleKind::kPipeDream);
}

Schedule pipedream_2bw(const ScheduleShape& shape) {
  return in_its_order(shape, ScheduleKind::kPipeDream2Bw);
}

}  // namespace ptdp
