// Looped breadth-first: every stage of a rank does all its microbatches before the next one.
#include <algorithm>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {

Schedule looped_bfs(const ScheduleShape& shape) {
  Schedule schedule = without_actions(ScheduleKind::kLoopedBfs, shape);
  for (int rank = 0; rank < shape.pp; ++rank) {
    std::vector<Action>& order = schedule.orders[rank];
    order.reserve(2 * static_cast<std::size_t>(shape.vpp) * shape.num_microbatches);
    for (int chunk = 0; chunk < shape.vpp; ++chunk) {
      for (int microbatch = 0; microbatch < shape.num_microbatches; ++microbatch) {
        order.push_back({ActionKind::kForward, chunk * shape.pp + rank, microbatch});
      }
    }
    for (int chunk = shape.vpp - 1; chunk >= 0; --chunk) {
      for (int microbatch = shape.num_microbatches - 1; microbatch >= 0; --microbatch) {
        order.push_back({ActionKind::kBackward, chunk * shape.pp + rank, microbatch});
      }
    }
  }
  return schedule;
}

}  // namespace ptdp
