// GPipe: all forward passes, then all backward passes.
#include "cost_model/schedule/generators/generators.h"

namespace ptdp {

Schedule gpipe(const ScheduleShape& shape) {
  Schedule schedule = without_actions(ScheduleKind::kGPipe, shape);
  for (int rank = 0; rank < shape.pp; ++rank) {
    std::vector<Action>& order = schedule.orders[rank];
    order.reserve(2 * static_cast<std::size_t>(shape.num_microbatches));
    for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
      for (int microbatch = 0; microbatch < shape.num_microbatches; ++microbatch) {
        order.push_back({kind, rank, microbatch});
      }
    }
  }
  return schedule;
}

}  // namespace ptdp
