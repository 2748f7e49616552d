#include "cost_model/schedule/schedule.h"

namespace ptdp {

int num_stages(const Schedule& schedule) {
  return schedule.pp * schedule.vpp;
}

int rank_of(const Schedule& schedule, int stage, int microbatch) {
  const int pp = schedule.pp;
  switch (schedule.placement) {
    case StagePlacement::kLooped:
      return stage % pp;
    case StagePlacement::kV:
      return stage < pp ? stage : 2 * pp - 1 - stage;
    case StagePlacement::kBidirectional:
      return 2 * std::int64_t{microbatch} < schedule.num_microbatches ? stage : pp - 1 - stage;
  }
  return 0;
}

std::int64_t num_actions(const Schedule& schedule) {
  std::int64_t count = 0;
  for (const std::vector<Action>& order : schedule.orders) {
    count += static_cast<std::int64_t>(order.size());
  }
  return count;
}

bool is_compute_only(const Schedule& schedule) {
  for (const std::vector<Action>& order : schedule.orders) {
    for (const Action& action : order) {
      if (!is_compute(action.kind)) {
        return false;
      }
    }
  }
  return true;
}

}  // namespace ptdp
