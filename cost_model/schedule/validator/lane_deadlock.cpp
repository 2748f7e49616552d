// Checks that a complete schedule comes to its end, lane by lane.
#include <algorithm>
#include <array>
#include <string>

#include "cost_model/schedule/validator/deadlock.h"
#include "cost_model/schedule/validator/validation.h"

namespace ptdp {
namespace {

/// Works through all lanes at once, each as far as it gets, to find a deadlock.
class LaneWalk {
 public:
  LaneWalk(const Schedule& schedule, MessageMode messages)
      : schedule_(schedule),
        messages_(messages),
        ranks_(schedule),
        done_(slot_of(schedule, ranks_.num_stages(), 0), Kinds{0}),
        stages_(2 * static_cast<std::size_t>(ranks_.num_stages())),
        states_(schedule.pp) {
    for (int rank = 0; rank < schedule.pp; ++rank) {
      for (const Action& action : schedule.orders[rank]) {
        StageState& stage = of(action.stage, rank);
        stage.gradients_left += (kWeightGradientBits & bit_of(action.kind)) != 0 ? 1 : 0;
        stage.gathers_left += action.kind == ActionKind::kGatherParameters ? 1 : 0;
        num_tied_ += action.kind == ActionKind::kReduceTied ? 1 : 0;
      }
      for (int lane = 0; lane < kNumLanes; ++lane) {
        seek(rank, lane);
      }
    }
  }

  std::optional<ScheduleFault> find() {
    for (int rank = schedule_.pp - 1; rank >= 0; --rank) {
      wake(rank);
    }
    while (!runnable_.empty()) {
      const int rank = runnable_.back();
      runnable_.pop_back();
      states_[rank].is_runnable = false;
      advance(rank);
    }
    std::optional<Place> stuck;
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      for (const std::size_t head : states_[rank].heads) {
        const std::vector<Action>& order = schedule_.orders[rank];
        if (head == order.size()) {
          continue;
        }
        if (is_message(order[head].kind)) {
          return deadlock_at({rank, head});
        }
        stuck = stuck.has_value() ? stuck : Place{rank, head};
      }
    }
    return stuck ? std::optional(deadlock_at(*stuck)) : std::nullopt;
  }

 private:
  /// What is left to do for a stage on one of the ranks that hold it.
  struct StageState {
    std::int64_t gradients_left = 0;
    int gathers_left = 0;
  };

  struct RankState {
    std::array<std::size_t, kNumLanes> heads = {};  ///< First action not yet done, by lane.
    bool is_runnable = false;
    Kinds arrived = 0;  ///< TIED and NORM at which the rank waits for others.
  };

  static bool is_message(ActionKind kind) {
    return kind >= ActionKind::kSendForward && kind <= ActionKind::kReceiveBackward;
  }

  StageState& of(int stage, int rank) {
    return stages_[2 * static_cast<std::size_t>(stage) + (ranks_.of(stage, 0) == rank ? 0 : 1)];
  }

  /// Whether one of these kinds is done for the stage and microbatch: it has made or got the
  /// result.
  [[nodiscard]] bool has(int stage, int microbatch, Kinds kinds) const {
    return (done_[slot_of(schedule_, stage, microbatch)] & kinds) != 0;
  }

  void wake(int rank) {
    if (!states_[rank].is_runnable) {
      states_[rank].is_runnable = true;
      runnable_.push_back(rank);
    }
  }

  /// Moves the head of a lane to the next action that stands on it.
  void seek(int rank, int lane) {
    const std::vector<Action>& order = schedule_.orders[rank];
    std::size_t& head = states_[rank].heads.at(lane);
    while (head < order.size() && static_cast<int>(lane_of(order[head].kind, messages_)) != lane) {
      ++head;
    }
  }

  void advance(int rank) {
    for (bool moved = true; moved;) {
      moved = false;
      for (int lane = 0; lane < kNumLanes; ++lane) {
        while (states_[rank].heads.at(lane) < schedule_.orders[rank].size() && step(rank, lane)) {
          moved = true;
        }
      }
    }
  }

  /// Does the action or pair at the head of a lane; returns false if it has to wait.
  bool step(int rank, int lane) {
    const std::vector<Action>& order = schedule_.orders[rank];
    const std::size_t begin = states_[rank].heads.at(lane);
    const std::size_t end = begin + (order[begin].overlaps_next ? 2 : 1);
    if (is_message(order[begin].kind)) {
      return exchange(rank, lane);
    }
    for (std::size_t i = begin; i < end; ++i) {
      if (!is_ready(order[i], rank)) {
        return false;
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      finish(order[i], rank);
    }
    states_[rank].heads.at(lane) = end;
    seek(rank, lane);
    return true;
  }

  /// Does a message if its other end is at the head of its lane too; returns false if it has to
  /// wait.
  bool exchange(int rank, int lane) {
    const Action& here = schedule_.orders[rank][states_[rank].heads.at(lane)];
    const Action there = other_end(here);
    const int other = ranks_.of(there.stage, there.microbatch);
    const std::size_t head = states_[other].heads.at(lane);
    const std::vector<Action>& order = schedule_.orders[other];
    if (head == order.size() || order[head] != there) {
      return false;
    }
    const bool is_send =
        here.kind == ActionKind::kSendForward || here.kind == ActionKind::kSendBackward;
    const Action& sent = is_send ? here : there;
    const bool is_forward = sent.kind == ActionKind::kSendForward;
    if (!has(sent.stage, sent.microbatch,
             is_forward ? bit_of(ActionKind::kForward) : kInputGradientBits)) {
      return false;
    }
    const Action& received = is_send ? there : here;
    done_[slot_of(schedule_, received)] |= bit_of(received.kind);
    for (const int end : {rank, other}) {
      ++states_[end].heads.at(lane);
      seek(end, lane);
    }
    wake(other);
    return true;
  }

  /// Returns the other end of a message: the receive of a send, the send of a receive.
  static Action other_end(Action action) {
    switch (action.kind) {
      case ActionKind::kSendForward:
        return {ActionKind::kReceiveForward, action.stage + 1, action.microbatch};
      case ActionKind::kReceiveForward:
        return {ActionKind::kSendForward, action.stage - 1, action.microbatch};
      case ActionKind::kSendBackward:
        return {ActionKind::kReceiveBackward, action.stage - 1, action.microbatch};
      default:
        return {ActionKind::kSendBackward, action.stage + 1, action.microbatch};
    }
  }

  bool is_ready(const Action& action, int rank) {
    constexpr Kinds activations = bit_of(ActionKind::kReceiveForward, ActionKind::kCopyForward);
    constexpr Kinds gradients = bit_of(ActionKind::kReceiveBackward, ActionKind::kCopyBackward);
    switch (action.kind) {
      case ActionKind::kForward:
        return of(action.stage, rank).gathers_left == 0 &&
               (action.stage == 0 || has(action.stage, action.microbatch, activations));
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        return action.stage + 1 == ranks_.num_stages()
                   ? has(action.stage, action.microbatch, bit_of(ActionKind::kForward))
                   : has(action.stage, action.microbatch, gradients);
      case ActionKind::kWeightGradient:
        return has(action.stage, action.microbatch, bit_of(ActionKind::kInputGradient));
      case ActionKind::kReduceGradients:
        return of(action.stage, rank).gradients_left == 0;
      case ActionKind::kReduceTied:
        return meet(action, rank, num_tied_, tied_);
      case ActionKind::kReduceNorm:
        return meet(action, rank, schedule_.pp, norm_);
      default:
        return true;
    }
  }

  /// Whether all ranks that take part in a reduction are at it, with their own buckets reduced.
  bool meet(const Action& action, int rank, int num_ranks, std::vector<int>& present) {
    RankState& state = states_[rank];
    const std::size_t data_head = state.heads.at(static_cast<std::size_t>(Lane::kData));
    if (data_head < schedule_.orders[rank].size()) {
      return false;
    }
    if ((state.arrived & bit_of(action.kind)) == 0) {
      state.arrived |= bit_of(action.kind);
      present.push_back(rank);
      if (std::ssize(present) == num_ranks) {
        std::for_each(present.begin(), present.end(), [this](int each) { wake(each); });
      }
    }
    return std::ssize(present) == num_ranks;
  }

  void finish(const Action& action, int rank) {
    StageState& stage = of(action.stage, rank);
    stage.gradients_left -= (kWeightGradientBits & bit_of(action.kind)) != 0 ? 1 : 0;
    stage.gathers_left -= action.kind == ActionKind::kGatherParameters ? 1 : 0;
    if (action.kind <= ActionKind::kCopyBackward) {
      done_[slot_of(schedule_, action)] |= bit_of(action.kind);
    }
  }

  /// Returns the fault at a place, with every rank around it at the action where it stands.
  [[nodiscard]] ScheduleFault deadlock_at(Place place) const {
    const Action& action = schedule_.orders[place.rank][place.position];
    std::string expected = "all that it needs";
    if (is_message(action.kind)) {
      const Action end = other_end(action);
      const int other = ranks_.of(end.stage, end.microbatch);
      expected = "rank " + std::to_string(other) + " at " + to_string(end);
    }
    ScheduleFault fault{.what = std::string("deadlock where messages ") +
                                (messages_ == MessageMode::kBlocking ? "block" : "overlap with") +
                                " compute: " + at(schedule_, place) + ": expected " + expected +
                                " first, which waits in turn"};
    const int first = std::max(place.rank - kGridRanksAround, 0);
    const int last = std::min(place.rank + kGridRanksAround, schedule_.pp - 1);
    for (int rank = first; rank <= last; ++rank) {
      const RankState& state = states_[rank];
      const std::size_t head = *std::min_element(state.heads.begin(), state.heads.end());
      fault.grid += grid_line(schedule_, {rank, rank == place.rank ? place.position : head},
                              head < schedule_.orders[rank].size());
    }
    return fault;
  }

  const Schedule& schedule_;
  MessageMode messages_;
  StageRanks ranks_;
  std::vector<Kinds> done_;         ///< Kinds that are done, by stage and microbatch.
  std::vector<StageState> stages_;  ///< State by virtual stage and which of its two holders.
  std::vector<RankState> states_;
  std::vector<int> runnable_;
  std::vector<int> tied_;  ///< Ranks that are at TIED.
  /// Ranks that are at NORM.
  std::vector<int> norm_;
  int num_tied_ = 0;
};

}  // namespace

std::optional<ScheduleFault> find_lane_deadlock(const Schedule& schedule, MessageMode messages) {
  return LaneWalk(schedule, messages).find();
}

}  // namespace ptdp
