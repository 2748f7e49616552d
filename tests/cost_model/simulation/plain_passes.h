// Times the passes of a schedule in the plainest way: it visits all ranks again and again, and runs
// each action once its input is there.
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "cost_model/schedule/schedule.h"
#include "cost_model/simulation/step_times.h"
#include "cost_model/simulation/timeline.h"

namespace ptdp {

/// Times F, B, I and W alone, with implied messages of one latency.
class PlainPasses {
 public:
  PlainPasses(const Schedule& schedule, const std::vector<StageDurations>& stages, Seconds latency)
      : schedule_(schedule), stages_(stages), latency_(latency), next_(schedule.orders.size()) {
    times_.ranks.resize(schedule.orders.size());
  }

  /// Returns the times of all passes. Ends early if the schedule deadlocks.
  SimulatedTimes run() {
    bool has_moved = true;
    while (has_moved) {
      has_moved = false;
      for (int rank = 0; rank < schedule_.pp; ++rank) {
        while (advance(rank)) {
          has_moved = true;
        }
      }
    }
    return times_;
  }

 private:
  /// Whether the result is of a forward pass, its stage, and its microbatch.
  using Result = std::tuple<bool, int, int>;

  /// Returns when an action has its input; nullopt while that is not known.
  [[nodiscard]] std::optional<Seconds> input_time(const Action& action, int rank) const {
    const bool is_forward = action.kind == ActionKind::kForward;
    if (action.kind == ActionKind::kWeightGradient || (is_forward && action.stage == 0)) {
      return Seconds(0.0);
    }
    const bool is_turn = !is_forward && action.stage == num_stages(schedule_) - 1;
    const int from = is_turn ? action.stage : action.stage + (is_forward ? -1 : 1);
    const auto made = made_.find({is_forward || is_turn, from, action.microbatch});
    if (made == made_.end()) {
      return std::nullopt;
    }
    return rank_of(schedule_, from, action.microbatch) == rank ? made->second
                                                               : made->second + latency_;
  }

  [[nodiscard]] Seconds duration(const Action& action) const {
    const StageDurations& of = stages_[stages_.size() == 1 ? 0 : action.stage];
    switch (action.kind) {
      case ActionKind::kForward:
        return of.forward;
      case ActionKind::kBackward:
        return of.backward;
      case ActionKind::kInputGradient:
        return of.input_gradient;
      default:
        return of.weight_gradient;
    }
  }

  bool advance(int rank) {
    const std::vector<Action>& order = schedule_.orders[rank];
    std::size_t& position = next_[rank];
    if (position == order.size()) {
      return false;
    }
    const std::size_t end = position + (order[position].overlaps_next ? 2 : 1);
    RankTimes& times = times_.ranks[rank];
    Seconds start = times.end;
    Seconds length;
    for (std::size_t i = position; i < end; ++i) {
      const std::optional<Seconds> ready = input_time(order[i], rank);
      if (!ready) {
        return false;
      }
      start = std::max(start, *ready);
      length += duration(order[i]);
    }
    if (position == 0) {
      times.start = start;
    }
    times.end = times.compute_end = start + length;
    times.work += length;
    for (; position < end; ++position) {
      finish(order[position], rank);
    }
    return true;
  }

  void finish(const Action& action, int rank) {
    RankTimes& times = times_.ranks[rank];
    int& live = live_[rank];
    if (action.kind == ActionKind::kForward) {
      times.peak_activations = std::max(times.peak_activations, ++live);
    }
    if (action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient) {
      --live;
    }
    if (action.kind != ActionKind::kWeightGradient) {
      made_[{action.kind == ActionKind::kForward, action.stage, action.microbatch}] = times.end;
    }
  }

  const Schedule& schedule_;
  const std::vector<StageDurations>& stages_;
  Seconds latency_;
  std::vector<std::size_t> next_;
  std::map<Result, Seconds> made_;
  std::map<int, int> live_;
  SimulatedTimes times_;
};

}  // namespace ptdp
