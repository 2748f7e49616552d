// The zero-bubble schedules with one stage a rank: ZB-H1 and ZB-H2.
#include <algorithm>
#include <cassert>
#include <vector>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

// Writes the order of one rank: a warm-up of k(p-1-r) + 1 forward passes, then one forward pass for
// each input gradient. The weight gradients wait until the rank holds as much as the first one:
// k(p-1) + 1 microbatches. k is `warm_up_per_rank`.
std::vector<Action> order_of(int rank, int pp, int num_microbatches, int warm_up_per_rank) {
  const int m = num_microbatches;
  const int warm_up = std::min(m, warm_up_per_rank * (pp - 1 - rank) + 1);
  const int delay = std::min(m, warm_up_per_rank * (pp - 1) + 1) - warm_up;
  std::vector<Action> order;
  order.reserve(3 * static_cast<std::size_t>(m));
  for (int i = 0; i < warm_up; ++i) {
    order.push_back({ActionKind::kForward, rank, i});
  }
  for (int i = 0; i < m + delay; ++i) {
    if (i < m) {
      order.push_back({ActionKind::kInputGradient, rank, i});
    }
    if (i >= delay) {
      order.push_back({ActionKind::kWeightGradient, rank, i - delay});
    }
    if (warm_up + i < m) {
      order.push_back({ActionKind::kForward, rank, warm_up + i});
    }
  }
  return order;
}

Schedule zb_h(ScheduleKind kind, int pp, int num_microbatches, int warm_up_per_rank) {
  assert(pp >= 1 && num_microbatches >= 1);
  Schedule schedule = without_actions(kind, {.pp = pp, .num_microbatches = num_microbatches});
  for (int rank = 0; rank < pp; ++rank) {
    schedule.orders[rank] = order_of(rank, pp, num_microbatches, warm_up_per_rank);
  }
  return schedule;
}

}  // namespace

Schedule zb_h1(int pp, int num_microbatches) {
  return zb_h(ScheduleKind::kZbH1, pp, num_microbatches, 1);
}

Schedule zb_h2(int pp, int num_microbatches) {
  return zb_h(ScheduleKind::kZbH2, pp, num_microbatches, 2);
}

}  // namespace ptdp
