// DualPipe and DualPipeV: forward and backward passes of two directions run together.
#include <array>
#include <cassert>
#include <deque>
#include <utility>
#include <vector>

#include "cost_model/schedule/generators/generators.h"

namespace ptdp {
namespace {

// The stage on which a rank meets the microbatches of one direction, and the first of them.
// Direction 0 reaches the rank early, direction 1 late.
struct Arrival {
  int stage = 0;
  int first_microbatch = 0;
};

// Writes the order of one rank of a V of `depth` ranks. In DualPipe each half of the pipeline is
// such a V, whose far side is in the other half. Steps 1 to 8 are those of deepseek-ai/DualPipe.
class DualPipeRank {
 public:
  DualPipeRank(int rank, int depth, std::array<Arrival, 2> directions)
      : rank_(rank), depth_(depth), directions_(directions) {}

  [[nodiscard]] std::vector<Action> order(int num_microbatches) {
    const int below = depth_ - rank_ - 1;  // Ranks between this one and the turn.
    for (int i = 0; i < 2 * below; ++i) {
      forward(0);
    }
    for (int i = 0; i < rank_ + 1; ++i) {
      forward(0);
      forward(1);
    }
    for (int i = 0; i < below; ++i) {
      input_gradient(1);
      weight_gradient();
      forward(1);
    }
    for (int i = 0; i < num_microbatches - 2 * depth_ + rank_ + 1; ++i) {
      // At the turn of the V the first pair would wait for its own forward pass.
      if (i == 0 && below == 0) {
        forward(0);
        backward(1);
      } else {
        together(0, 1);
      }
      together(1, 0);
    }
    for (int i = 0; i < below; ++i) {
      backward(1);
      together(1, 0);
    }
    drain(below);
    return order_;
  }

 private:
  // Backward passes that no forward pass accompanies. The second half of them leaves its weight
  // gradients for the end.
  void drain(int below) {
    for (int i = 0; i < 2 * (rank_ + 1); ++i) {
      const int direction = 1 - i % 2;
      if (i > rank_) {
        input_gradient(direction);
      } else {
        backward(direction);
      }
    }
    for (int i = 0; i < below; ++i) {
      weight_gradient();
      input_gradient(0);
    }
    while (!waiting_.empty()) {
      weight_gradient();
    }
  }

  Action next(ActionKind kind, int direction, std::array<int, 2>& counts) {
    const Arrival& to = directions_.at(direction);
    return {kind, to.stage, to.first_microbatch + counts.at(direction)++};
  }

  void forward(int direction) {
    order_.push_back(next(ActionKind::kForward, direction, forwards_));
  }

  void backward(int direction) {
    order_.push_back(next(ActionKind::kBackward, direction, backwards_));
  }

  void input_gradient(int direction) {
    order_.push_back(next(ActionKind::kInputGradient, direction, backwards_));
    waiting_.push_back(order_.back());
  }

  void weight_gradient() {
    order_.push_back(waiting_.front());
    order_.back().kind = ActionKind::kWeightGradient;
    waiting_.pop_front();
  }

  void together(int forward_direction, int backward_direction) {
    forward(forward_direction);
    order_.back().overlaps_next = true;
    backward(backward_direction);
  }

  int rank_;
  int depth_;
  std::array<Arrival, 2> directions_;
  std::array<int, 2> forwards_{};
  std::array<int, 2> backwards_{};
  std::deque<Action> waiting_;  // Input gradients whose weight gradients are due, oldest first.
  std::vector<Action> order_;
};

}  // namespace

Schedule dualpipe(int pp, int num_microbatches) {
  assert(pp % 2 == 0 && num_microbatches % 2 == 0 && num_microbatches >= 2 * pp);
  Schedule schedule =
      without_actions(ScheduleKind::kDualPipe, {.pp = pp, .num_microbatches = num_microbatches});
  const int half = num_microbatches / 2;
  for (int rank = 0; rank < pp; ++rank) {
    const bool first_half = rank < pp / 2;
    const int from_end = first_half ? rank : pp - 1 - rank;
    const Arrival near{.stage = from_end, .first_microbatch = first_half ? 0 : half};
    const Arrival far{.stage = pp - 1 - from_end, .first_microbatch = first_half ? half : 0};
    schedule.orders[rank] = DualPipeRank(from_end, pp / 2, {near, far}).order(half);
  }
  return schedule;
}

Schedule dualpipev(int pp, int num_microbatches) {
  assert(num_microbatches >= 2 * pp);
  Schedule schedule =
      without_actions(ScheduleKind::kDualPipeV, {.pp = pp, .num_microbatches = num_microbatches});
  for (int rank = 0; rank < pp; ++rank) {
    const Arrival down{.stage = rank};
    const Arrival up{.stage = 2 * pp - 1 - rank};
    schedule.orders[rank] = DualPipeRank(rank, pp, {down, up}).order(num_microbatches);
  }
  return schedule;
}

}  // namespace ptdp
