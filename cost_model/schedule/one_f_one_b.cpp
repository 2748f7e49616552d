#include <algorithm>

#include "cost_model/schedule/generators.h"

namespace ptdp {

Schedule one_f_one_b(const ScheduleShape& shape) {
  const int microbatches = shape.num_microbatches;
  Schedule schedule{.name = "1f1b",
                    .pp = shape.pp,
                    .num_microbatches = microbatches,
                    .orders = std::vector<std::vector<Action>>(shape.pp)};
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

}  // namespace ptdp
