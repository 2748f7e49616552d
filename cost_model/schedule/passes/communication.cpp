#include "cost_model/schedule/passes/communication.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "cost_model/error.h"
#include "cost_model/schedule/stage_ranks.h"

namespace ptdp {
namespace {

/// Returns a schedule with the same sizes and an empty list for every rank.
Schedule without_actions(const Schedule& schedule) {
  return {.name = schedule.name,
          .pp = schedule.pp,
          .vpp = schedule.vpp,
          .num_microbatches = schedule.num_microbatches,
          .placement = schedule.placement,
          .orders = std::vector<std::vector<Action>>(schedule.pp)};
}

/// Returns how many actions from `begin` run together: 1, or 2 of an overlapped pair.
std::size_t group_size(const std::vector<Action>& order, std::size_t begin) {
  return order[begin].overlaps_next && begin + 1 < order.size() ? 2 : 1;
}

bool makes_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kInputGradient;
}

/// Returns the stage that takes the result of an action; nullopt if none does.
std::optional<int> stage_behind(const Action& action, int num_stages) {
  if (action.kind == ActionKind::kForward && action.stage + 1 < num_stages) {
    return action.stage + 1;
  }
  if (makes_gradient(action.kind) && action.stage > 0 && action.stage < num_stages) {
    return action.stage - 1;
  }
  return std::nullopt;
}

/// Set of ranks that get a turn, taken in ascending order; 64 of them are passed over at a time.
class RankSet {
 public:
  explicit RankSet(int pp) : words_(static_cast<std::size_t>(pp) / kBits + 1) {}

  void insert(int rank) { words_[rank / kBits] |= std::uint64_t{1} << (rank % kBits); }

  /// Takes out the first rank from `rank` on and returns it; nullopt if there is none.
  std::optional<int> take_from(int rank) {
    std::size_t word = rank / kBits;
    std::uint64_t bits = words_[word] & (~std::uint64_t{0} << (rank % kBits));
    while (bits == 0) {
      if (++word == words_.size()) {
        return std::nullopt;
      }
      bits = words_[word];
    }
    words_[word] &= ~(bits & -bits);
    return static_cast<int>(word * kBits) + std::countr_zero(bits);
  }

 private:
  static constexpr std::size_t kBits = 64;
  std::vector<std::uint64_t> words_;
};

/// Walks all lists at once, one action or pair of each rank after the other, and writes the lists
/// with messages.
class MessagePass {
 public:
  explicit MessagePass(const Schedule& schedule)
      : schedule_(schedule),
        num_stages_(num_stages(schedule)),
        ranks_(schedule),
        arrived_(static_cast<std::size_t>(num_stages_) * schedule.num_microbatches),
        positions_(schedule.pp),
        turns_(schedule.pp),
        next_turns_(schedule.pp) {}

  Schedule run() {
    Schedule result = without_actions(schedule_);
    reserve(result.orders);
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      if (!schedule_.orders[rank].empty()) {
        turns_.insert(rank);
      }
    }
    while (sweep(result.orders)) {
      std::swap(turns_, next_turns_);
    }
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      if (positions_[rank] < schedule_.orders[rank].size()) {
        throw Error("schedule " + schedule_.name + ": rank " + std::to_string(rank) +
                    " waits for the input of " +
                    to_string(schedule_.orders[rank][positions_[rank]]) +
                    " for ever; expected no deadlock");
      }
    }
    return result;
  }

 private:
  static constexpr std::uint8_t kActivations = 1;
  static constexpr std::uint8_t kGradients = 2;

  [[nodiscard]] std::size_t slot_of(int stage, int microbatch) const {
    return static_cast<std::size_t>(stage) * schedule_.num_microbatches + microbatch;
  }

  /// Reserves room for every action and the two ends of its message.
  void reserve(std::vector<std::vector<Action>>& orders) const {
    for (int rank = 0; rank < schedule_.pp; ++rank) {
      const std::vector<Action>& order = schedule_.orders[rank];
      const auto makers = std::count_if(order.begin(), order.end(), [](const Action& action) {
        return action.kind == ActionKind::kForward || makes_gradient(action.kind);
      });
      orders[rank].reserve(order.size() + 2 * static_cast<std::size_t>(makers));
    }
  }

  /// Gives one turn to every rank that may be able to go on; returns false if there was none.
  bool sweep(std::vector<std::vector<Action>>& orders) {
    auto rank = turns_.take_from(0);
    const bool has_turns = rank.has_value();
    while (rank) {
      take_turn(*rank, orders);
      rank = turns_.take_from(*rank);
    }
    return has_turns;
  }

  [[nodiscard]] bool is_ready(const Action& action) const {
    switch (action.kind) {
      case ActionKind::kForward:
        return action.stage == 0 ||
               (arrived_[slot_of(action.stage, action.microbatch)] & kActivations) != 0;
      case ActionKind::kBackward:
      case ActionKind::kInputGradient:
        return action.stage + 1 == num_stages_ ||
               (arrived_[slot_of(action.stage, action.microbatch)] & kGradients) != 0;
      default:
        return true;
    }
  }

  /// Emits the rank's next action or pair and its messages. Emits nothing if an input is missing,
  /// whose arrival gives the rank another turn.
  void take_turn(int rank, std::vector<std::vector<Action>>& orders) {
    const std::vector<Action>& order = schedule_.orders[rank];
    const std::size_t begin = positions_[rank];
    if (begin == order.size()) {
      return;
    }
    const std::size_t end = begin + group_size(order, begin);
    for (std::size_t i = begin; i < end; ++i) {
      if (!is_ready(order[i])) {
        return;
      }
    }
    for (std::size_t i = begin; i < end; ++i) {
      orders[rank].push_back(order[i]);
    }
    for (std::size_t i = begin; i < end; ++i) {
      hand_over(order[i], rank, orders);
    }
    positions_[rank] = end;
    next_turns_.insert(rank);
  }

  /// Sends or copies the result of an action to the stage that takes it.
  void hand_over(const Action& action, int rank, std::vector<std::vector<Action>>& orders) {
    const auto taker = stage_behind(action, num_stages_);
    if (!taker) {
      return;
    }
    const bool is_forward = action.kind == ActionKind::kForward;
    const int microbatch = action.microbatch;
    arrived_[slot_of(*taker, microbatch)] |= is_forward ? kActivations : kGradients;
    const int receiver = ranks_.of(*taker, microbatch);
    if (receiver == rank) {
      orders[rank].push_back(
          {is_forward ? ActionKind::kCopyForward : ActionKind::kCopyBackward, *taker, microbatch});
      return;
    }
    orders[rank].push_back({is_forward ? ActionKind::kSendForward : ActionKind::kSendBackward,
                            action.stage, microbatch});
    orders[receiver].push_back(
        {is_forward ? ActionKind::kReceiveForward : ActionKind::kReceiveBackward, *taker,
         microbatch});
    // A rank with a higher number still has its turn in this sweep; a lower one must wait for the
    // next.
    (receiver > rank ? turns_ : next_turns_).insert(receiver);
  }

  const Schedule& schedule_;
  int num_stages_;
  StageRanks ranks_;
  std::vector<std::uint8_t> arrived_;  ///< Which inputs are there, by stage and microbatch.
  std::vector<std::size_t> positions_;
  RankSet turns_;  ///< Ranks that get a turn in this sweep.
  RankSet next_turns_;
};

}  // namespace

Schedule insert_messages(const Schedule& schedule) {
  return MessagePass(schedule).run();
}

Schedule compute_alone(Schedule schedule) {
  for (std::vector<Action>& order : schedule.orders) {
    std::erase_if(order, [](const Action& action) { return !is_compute(action.kind); });
  }
  return schedule;
}

Schedule insert_copies(const Schedule& schedule) {
  Schedule result = without_actions(schedule);
  for (int rank = 0; rank < schedule.pp; ++rank) {
    const std::vector<Action>& order = schedule.orders[rank];
    std::vector<Action>& lowered = result.orders[rank];
    lowered.reserve(order.size());
    for (std::size_t begin = 0; begin < order.size();) {
      const std::size_t end = begin + group_size(order, begin);
      lowered.insert(lowered.end(), order.begin() + static_cast<std::ptrdiff_t>(begin),
                     order.begin() + static_cast<std::ptrdiff_t>(end));
      for (std::size_t i = begin; i < end; ++i) {
        const Action& action = order[i];
        const auto taker = stage_behind(action, num_stages(schedule));
        if (taker && rank_of(schedule, *taker, action.microbatch) == rank) {
          const bool is_forward = action.kind == ActionKind::kForward;
          lowered.push_back({is_forward ? ActionKind::kCopyForward : ActionKind::kCopyBackward,
                             *taker, action.microbatch});
        }
      }
      begin = end;
    }
  }
  return result;
}

Schedule merge_backward(Schedule schedule) {
  for (std::vector<Action>& order : schedule.orders) {
    std::size_t written = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      Action action = order[i];
      const bool is_paired = action.overlaps_next || (i > 0 && order[i - 1].overlaps_next);
      if (!is_paired && i + 1 < order.size() && action.kind == ActionKind::kInputGradient &&
          order[i + 1] == Action{ActionKind::kWeightGradient, action.stage, action.microbatch}) {
        action.kind = ActionKind::kBackward;
        ++i;
      }
      order[written++] = action;
    }
    order.resize(written);
  }
  return schedule;
}

Schedule split_backward(const Schedule& schedule) {
  Schedule result = without_actions(schedule);
  for (int rank = 0; rank < schedule.pp; ++rank) {
    const std::vector<Action>& order = schedule.orders[rank];
    std::vector<Action>& split = result.orders[rank];
    split.reserve(order.size() + order.size() / 2);
    for (std::size_t i = 0; i < order.size(); ++i) {
      const bool is_paired = order[i].overlaps_next || (i > 0 && order[i - 1].overlaps_next);
      split.push_back(order[i]);
      if (order[i].kind == ActionKind::kBackward && !is_paired) {
        split.back().kind = ActionKind::kInputGradient;
        split.push_back({ActionKind::kWeightGradient, order[i].stage, order[i].microbatch});
      }
    }
  }
  return result;
}

}  // namespace ptdp
