// ZB-V, the zero-bubble schedule with two stages a rank in a V.
#include <algorithm>
#include <array>
#include <cassert>
#include <vector>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

// Writes the order of one rank. A "leg" is 0 on the way down, stage r, and 1 on the way back up,
// stage 2p-1-r. The rule needs 2p-1 microbatches. Those beyond m are counted but not written, which
// leaves the order of the others as it is.
class ZbVRank {
 public:
  ZbVRank(int rank, int pp, int num_microbatches)
      : rank_(rank), pp_(pp), num_microbatches_(num_microbatches) {}

  [[nodiscard]] std::vector<Action> order() {
    const int rounds = std::max(num_microbatches_, 2 * pp_ - 1);
    for (int i = 0; i < 2 * (pp_ - rank_) - 1; ++i) {
      add(ActionKind::kForward, 0);
    }
    for (int i = 0; i < rank_; ++i) {
      add(ActionKind::kForward, 1);
      add(ActionKind::kForward, 0);
    }
    for (int i = 0; i < pp_ - rank_; ++i) {
      add(ActionKind::kForward, 1);
      add_backward(1);
    }
    while (done(ActionKind::kForward, 1) < rounds) {
      if (done(ActionKind::kForward, 0) < rounds) {
        add(ActionKind::kForward, 0);
      }
      add_backward(0);
      add(ActionKind::kForward, 1);
      add_backward(1);
    }
    for (int i = 0; i < rank_; ++i) {
      add(ActionKind::kInputGradient, 0);
      add(ActionKind::kInputGradient, 1);
    }
    while (done(ActionKind::kInputGradient, 0) < rounds) {
      add_backward(0);
    }
    for (const int leg : {1, 0}) {
      while (done(ActionKind::kWeightGradient, leg) < rounds) {
        add(ActionKind::kWeightGradient, leg);
      }
    }
    return order_;
  }

 private:
  int& done(ActionKind kind, int leg) { return done_.at(static_cast<std::size_t>(kind)).at(leg); }

  void add(ActionKind kind, int leg) {
    const int microbatch = done(kind, leg)++;
    if (microbatch < num_microbatches_) {
      order_.push_back({kind, leg == 0 ? rank_ : 2 * pp_ - 1 - rank_, microbatch});
    }
  }

  void add_backward(int leg) {
    add(ActionKind::kInputGradient, leg);
    add(ActionKind::kWeightGradient, leg);
  }

  int rank_;
  int pp_;
  int num_microbatches_;
  std::array<std::array<int, 2>, 4> done_{};
  std::vector<Action> order_;
};

}  // namespace

Schedule zb_v(int pp, int num_microbatches) {
  assert(pp >= 1 && num_microbatches >= 1);
  Schedule schedule =
      without_actions(ScheduleKind::kZbV, {.pp = pp, .num_microbatches = num_microbatches});
  for (int rank = 0; rank < pp; ++rank) {
    schedule.orders[rank] = ZbVRank(rank, pp, num_microbatches).order();
  }
  return schedule;
}

}  // namespace ptdp
