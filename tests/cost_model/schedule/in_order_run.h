// Runs a schedule in the plainest way, to check generators by other means than the simulator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost_model/schedule/schedule.h"

namespace ptdp {

struct Durations {
  int forward = 1;
  int input_gradient = 1;
  int weight_gradient = 1;
};

// The result of running a schedule, each rank in its order, without communication.
struct Outcome {
  bool finished = false;  ///< Whether every action ran; false for a deadlock.
  int makespan = 0;
  std::vector<int> peaks;  ///< Most activations held, by rank [chunks].
  std::vector<int> idle;   ///< Idle time between a rank's first start and its last end, by rank.
};

// Runs a schedule by asking every rank in turn whether its next action can run, until none can.
class Run {
 public:
  Run(const Schedule& schedule, const Durations& durations)
      : schedule_(schedule),
        durations_(durations),
        num_stages_(schedule.pp * schedule.vpp),
        forward_ends_(index(num_stages_, 0), kNotYet),
        gradient_ends_(index(num_stages_, 0), kNotYet),
        next_(schedule.orders.size()),
        first_(schedule.orders.size(), kNotYet),
        time_(schedule.orders.size()),
        live_(schedule.orders.size()) {}

  [[nodiscard]] Outcome outcome() {
    const std::size_t pp = schedule_.orders.size();
    Outcome outcome{.peaks = std::vector<int>(pp), .idle = std::vector<int>(pp)};
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < pp; ++rank) {
        while (next_[rank] < schedule_.orders[rank].size() && advance(rank, outcome)) {
          moved = true;
        }
      }
    }
    outcome.finished = true;
    outcome.makespan = *std::max_element(time_.begin(), time_.end());
    for (std::size_t rank = 0; rank < pp; ++rank) {
      outcome.finished = outcome.finished && next_[rank] == schedule_.orders[rank].size();
      outcome.idle[rank] += time_[rank] - first_[rank];
    }
    return outcome;
  }

 private:
  static constexpr int kNotYet = -1;

  // Runs the next action of a rank, or two that overlap. Returns false if the rank has to wait.
  [[nodiscard]] bool advance(std::size_t rank, Outcome& outcome) {
    const std::vector<Action>& order = schedule_.orders[rank];
    const std::size_t group = order[next_[rank]].overlaps_next ? 2 : 1;
    const int ready = start(order, next_[rank], group);
    if (ready == kNotYet) {
      return false;
    }
    const int begin = std::max(time_[rank], ready);
    const int busy = work(order, next_[rank], group);
    time_[rank] = begin + busy;
    outcome.idle[rank] -= busy;
    first_[rank] = first_[rank] == kNotYet ? begin : first_[rank];
    for (std::size_t i = 0; i < group; ++i) {
      const Action& action = order[next_[rank]++];
      finish(action, time_[rank]);
      live_[rank] += action.kind == ActionKind::kForward ? 1 : 0;
      outcome.peaks[rank] = std::max(outcome.peaks[rank], live_[rank]);
      live_[rank] -= ends_activation(action) ? 1 : 0;
    }
    return true;
  }

  static bool ends_activation(const Action& action) {
    return action.kind == ActionKind::kBackward || action.kind == ActionKind::kWeightGradient;
  }

  [[nodiscard]] std::size_t index(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * schedule_.num_microbatches + microbatch;
  }

  // Returns when everything that the actions wait for has ended; kNotYet if something has not run.
  [[nodiscard]] int start(const std::vector<Action>& order, std::size_t at,
                          std::size_t group) const {
    int latest = 0;
    for (std::size_t i = at; i < at + group; ++i) {
      const Action& action = order[i];
      std::vector<int> ends;
      switch (action.kind) {
        case ActionKind::kForward:
          if (action.stage > 0) {
            ends.push_back(forward_ends_[index(action.stage - 1, action.microbatch)]);
          }
          break;
        case ActionKind::kBackward:
        case ActionKind::kInputGradient:
          ends.push_back(forward_ends_[index(action.stage, action.microbatch)]);
          if (action.stage + 1 < num_stages_) {
            ends.push_back(gradient_ends_[index(action.stage + 1, action.microbatch)]);
          }
          break;
        case ActionKind::kWeightGradient:
          ends.push_back(gradient_ends_[index(action.stage, action.microbatch)]);
          break;
        default:
          ADD_FAILURE() << to_string(action) << " does not compute";
      }
      for (const int end : ends) {
        if (end == kNotYet) {
          return kNotYet;
        }
        latest = std::max(latest, end);
      }
    }
    return latest;
  }

  [[nodiscard]] int work(const std::vector<Action>& order, std::size_t at,
                         std::size_t group) const {
    int sum = 0;
    for (std::size_t i = at; i < at + group; ++i) {
      const ActionKind kind = order[i].kind;
      sum += kind == ActionKind::kForward ? durations_.forward : 0;
      sum += kind == ActionKind::kInputGradient || kind == ActionKind::kBackward
                 ? durations_.input_gradient
                 : 0;
      sum += ends_activation(order[i]) ? durations_.weight_gradient : 0;
    }
    return sum;
  }

  void finish(const Action& action, int end) {
    if (action.kind == ActionKind::kForward) {
      forward_ends_[index(action.stage, action.microbatch)] = end;
    } else if (action.kind != ActionKind::kWeightGradient) {
      gradient_ends_[index(action.stage, action.microbatch)] = end;
    }
  }

  const Schedule& schedule_;
  Durations durations_;
  int num_stages_;
  std::vector<int> forward_ends_;
  std::vector<int> gradient_ends_;
  std::vector<std::size_t> next_;
  std::vector<int> first_;
  std::vector<int> time_;
  std::vector<int> live_;
};

[[nodiscard]] inline Outcome run(const Schedule& schedule, const Durations& durations = {}) {
  return Run(schedule, durations).outcome();
}

// Returns the rank that should run an action.
[[nodiscard]] inline int rank_of(const Schedule& schedule, const Action& action) {
  const int p = schedule.pp;
  switch (schedule.placement) {
    case StagePlacement::kLooped:
      return action.stage % p;
    case StagePlacement::kV:
      return std::min(action.stage, 2 * p - 1 - action.stage);
    case StagePlacement::kBidirectional:
      return action.microbatch < schedule.num_microbatches / 2 ? action.stage
                                                               : p - 1 - action.stage;
  }
  return -1;
}

// Whether each stage runs F, I and W of each microbatch exactly once, where it belongs.
[[nodiscard]] inline bool is_complete(const Schedule& schedule) {
  const std::size_t m = schedule.num_microbatches;
  const std::size_t num_stages = static_cast<std::size_t>(schedule.pp) * schedule.vpp;
  std::vector<int> seen(3 * num_stages * m);
  for (int rank = 0; rank < schedule.pp; ++rank) {
    for (const Action& action : schedule.orders[rank]) {
      if (rank_of(schedule, action) != rank) {
        return false;
      }
      const std::size_t cell = 3 * (action.stage * m + action.microbatch);
      seen[cell] += action.kind == ActionKind::kForward ? 1 : 0;
      seen[cell + 1] +=
          action.kind == ActionKind::kInputGradient || action.kind == ActionKind::kBackward ? 1 : 0;
      seen[cell + 2] +=
          action.kind == ActionKind::kWeightGradient || action.kind == ActionKind::kBackward ? 1
                                                                                             : 0;
    }
  }
  return std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; });
}

}  // namespace ptdp
