// Completes a compute-only schedule as plainly as can be, for tests and benchmarks of the
// simulator.
#pragma once

#include <array>
#include <deque>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

/// What to add besides messages.
struct Additions {
  int buckets = 0;  ///< REDUCE_GRAD per stage and rank.
  int gathers = 0;  ///< UNSHARD per stage and rank.
  bool ties = false;
  bool finishes = false;  ///< NORM and OPTIMIZER.
};

/// Runs the schedule in rounds in which each rank does at most one action or pair, and writes down
/// what is done: a send right behind the action that makes the data, its receive at the same moment
/// at the end of the receiver's list, a copy before the action that takes it.
class TestLowering {
 public:
  TestLowering(const Schedule& schedule, const Additions& additions)
      : schedule_(schedule),
        additions_(additions),
        last_stage_(num_stages(schedule) - 1),
        result_(schedule),
        next_(schedule.orders.size()),
        there_{std::vector<bool>(size()), std::vector<bool>(size())} {
    for (std::vector<Action>& order : result_.orders) {
      order.clear();
    }
  }

  Schedule lowered() {
    for (bool has_moved = true; has_moved;) {
      has_moved = false;
      std::vector<int> ready;
      for (int rank = 0; rank < schedule_.pp; ++rank) {
        if (can_run(rank)) {
          ready.push_back(rank);
        }
      }
      for (const int rank : ready) {
        run_next(rank);
        has_moved = true;
      }
    }
    finish();
    return result_;
  }

 private:
  [[nodiscard]] std::size_t size() const {
    return static_cast<std::size_t>(num_stages(schedule_)) * schedule_.num_microbatches;
  }
  [[nodiscard]] std::size_t slot(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * schedule_.num_microbatches + microbatch;
  }

  [[nodiscard]] bool has_input(const Action& action) const {
    switch (action.kind) {
      case ActionKind::kForward:
        return action.stage == 0 || there_[0][slot(action.stage, action.microbatch)];
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        return action.stage == last_stage_ || there_[1][slot(action.stage, action.microbatch)];
      default:
        return true;
    }
  }

  [[nodiscard]] bool can_run(int rank) const {
    const std::vector<Action>& order = schedule_.orders[rank];
    const std::size_t at = next_[rank];
    return at < order.size() && has_input(order[at]) &&
           (!order[at].overlaps_next || has_input(order[at + 1]));
  }

  void run_next(int rank) {
    const std::vector<Action>& order = schedule_.orders[rank];
    const std::size_t begin = next_[rank];
    const std::size_t end = begin + (order[begin].overlaps_next ? 2 : 1);
    for (std::size_t i = begin; i < end; ++i) {
      prepare(order[i], rank);
    }
    for (std::size_t i = begin; i < end; ++i) {
      result_.orders[rank].push_back(order[i]);
    }
    for (std::size_t i = begin; i < end; ++i) {
      deliver(order[i], rank);
    }
    next_[rank] = end;
  }

  /// What stands before an action: its copy, and the gathers before a stage's first forward pass.
  void prepare(const Action& action, int rank) {
    std::vector<Action>& order = result_.orders[rank];
    const bool is_forward = action.kind == ActionKind::kForward;
    const bool is_backward =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
    const int from = action.stage + (is_forward ? -1 : 1);
    if ((is_forward || is_backward) && from >= 0 && from <= last_stage_ &&
        rank_of(schedule_, from, action.microbatch) == rank) {
      order.push_back({is_forward ? ActionKind::kCopyForward : ActionKind::kCopyBackward,
                       action.stage, action.microbatch});
    }
    if (is_forward && !holds(order, ActionKind::kForward, action.stage)) {
      for (int bucket = 0; bucket < additions_.gathers; ++bucket) {
        order.push_back({ActionKind::kGatherParameters, action.stage, bucket});
      }
    }
  }

  [[nodiscard]] bool holds(const std::vector<Action>& order, ActionKind kind, int stage) const {
    if (additions_.gathers == 0) {
      return true;
    }
    for (const Action& action : order) {
      if (action.kind == kind && action.stage == stage) {
        return true;
      }
    }
    return false;
  }

  void deliver(const Action& action, int rank) {
    const bool is_forward = action.kind == ActionKind::kForward;
    const bool is_backward =
        action.kind == ActionKind::kBackward || action.kind == ActionKind::kInputGradient;
    if (!is_forward && !is_backward) {
      return;
    }
    const int to = action.stage + (is_forward ? 1 : -1);
    if (to < 0 || to > last_stage_) {
      return;
    }
    there_[is_forward ? 0 : 1][slot(to, action.microbatch)] = true;
    const int receiver = rank_of(schedule_, to, action.microbatch);
    if (receiver != rank) {
      result_.orders[rank].push_back(
          {is_forward ? ActionKind::kSendForward : ActionKind::kSendBackward, action.stage,
           action.microbatch});
      result_.orders[receiver].push_back(
          {is_forward ? ActionKind::kReceiveForward : ActionKind::kReceiveBackward, to,
           action.microbatch});
    }
  }

  void finish() {
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      std::vector<Action>& order = result_.orders[rank];
      add_reductions(order);
      const bool is_tied =
          rank == rank_of(schedule_, 0, 0) || rank == rank_of(schedule_, last_stage_, 0);
      if (additions_.ties && is_tied &&
          rank_of(schedule_, 0, 0) != rank_of(schedule_, last_stage_, 0)) {
        order.push_back({ActionKind::kReduceTied});
      }
      if (additions_.finishes) {
        order.push_back({ActionKind::kReduceNorm});
        order.push_back({ActionKind::kOptimizer});
      }
    }
  }

  /// Behind the last weight gradient of each stage.
  void add_reductions(std::vector<Action>& order) const {
    if (additions_.buckets == 0) {
      return;
    }
    std::vector<bool> has_seen(static_cast<std::size_t>(last_stage_) + 1);
    std::deque<Action> reversed;
    for (std::size_t i = order.size(); i-- > 0;) {
      const Action& action = order[i];
      const bool is_last_weight_gradient =
          (action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward) &&
          !has_seen[action.stage];
      // A pair stays together: the buckets of its first stand behind its second.
      if (is_last_weight_gradient) {
        has_seen[action.stage] = true;
        const auto place = reversed.begin() + (action.overlaps_next ? 1 : 0);
        std::vector<Action> buckets;
        for (int bucket = 0; bucket < additions_.buckets; ++bucket) {
          buckets.push_back({ActionKind::kReduceGradients, action.stage, bucket});
        }
        reversed.insert(place, buckets.begin(), buckets.end());
      }
      reversed.push_front(action);
    }
    order.assign(reversed.begin(), reversed.end());
  }

  const Schedule& schedule_;
  Additions additions_;
  int last_stage_;
  Schedule result_;
  std::vector<std::size_t> next_;
  std::array<std::vector<bool>, 2> there_;  ///< Activations and gradients.
};

[[nodiscard]] inline Schedule lowered(const Schedule& schedule, const Additions& additions = {}) {
  return TestLowering(schedule, additions).lowered();
}

}  // namespace ptdp
